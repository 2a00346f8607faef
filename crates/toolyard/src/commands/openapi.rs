//! `toolyard openapi`: serves the operations of an OpenAPI description as tools, on stdio. `toolyard add` writes it
//! into a config.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use toolyard_model::Scope;
use toolyard_openapi::{Description, OpenApiServer};
use toolyard_serve::{Endpoint, Options, serve_pipe};

use super::live;
use crate::failure::{Failure, refused};
use crate::say;
use crate::settings::variable;
use crate::stop::Stop;

/// Headers for the service, one `Name: value` a line. They are not arguments, because other users can read those.
pub(super) const HEADERS: &str = "TOOLYARD_OPENAPI_HEADERS";
/// How long calls may go on once the client has closed its end.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Headers for the service, such as credentials, come from the variable TOOLYARD_OPENAPI_HEADERS: one
`Name: value` a line. `toolyard add NAME FILE --header …` sets it.")]
pub(crate) struct OpenapiArgs {
    /// The description, OpenAPI 3.0 or 3.1, as YAML or JSON.
    file: PathBuf,
    /// The address of the service [default: the first server of the description].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

pub(super) fn openapi(args: &OpenapiArgs) -> Result<(), Failure> {
    let description = read(&args.file)?;
    for skipped in &description.skipped {
        say::line(format_args!("note: {} is not a tool: {}", skipped.operation, skipped.why));
    }
    let base = base(&description, args.base_url.as_deref(), &args.file)?;
    let server = Arc::new(OpenApiServer::new(description, &base, headers()?));
    live::block_on(async {
        let mut stop = Stop::new()?;
        let scope = Scope::new();
        let endpoint = Arc::new(Endpoint::new(server, Options::default(), &scope));
        tokio::select! {
            () = serve_pipe(tokio::io::stdin(), tokio::io::stdout(), endpoint, DRAIN, scope.child()) => {}
            _ = stop.signal() => {}
        }
        let _ = tokio::time::timeout(DRAIN, scope.end()).await;
        Ok(())
    })?
}

/// The description in a file.
pub(super) fn read(file: &Path) -> Result<Description, Failure> {
    let cannot = |error| refused(format!("cannot read {}: {error}", file.display()), "check the path");
    let text = std::fs::read_to_string(file).map_err(cannot)?;
    Description::read(&text).map_err(|why| {
        let message = format!("{} is not an OpenAPI description that can be used: {why}", file.display());
        refused(message, "Toolyard reads OpenAPI 3.0 and 3.1, as YAML or JSON")
    })
}

/// The address of the service.
pub(super) fn base(description: &Description, asked: Option<&str>, file: &Path) -> Result<String, Failure> {
    let base = asked.or(description.base.as_deref()).ok_or_else(|| {
        refused(
            format!("{} does not name the address of its service", file.display()),
            "give it with --base-url",
        )
    })?;
    if !base.starts_with("http://") && !base.starts_with("https://") {
        return Err(refused(
            format!("`{base}` is not a URL"),
            "--base-url takes an address such as https://api.example",
        ));
    }
    Ok(base.to_owned())
}

fn headers() -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for line in variable(HEADERS).unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
        let wrong =
            || refused(format!("a line of {HEADERS} is not `Name: value`"), "write one header a line");
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}
