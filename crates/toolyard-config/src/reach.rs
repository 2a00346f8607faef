//! How an upstream is reached: a program to start, or a URL (HTTP, or a socket). The same keys in every format.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use toolyard_guard::Sandbox;
use toolyard_link::SocketSpec;
use toolyard_link::http::Identity;
use toolyard_model::headers;

use super::reader::{Field, Reader, Section};
use super::tree::Value;

#[derive(Debug)]
pub enum Reach {
    Program(Program),
    Server(Server),
    Socket(SocketSpec),
}

/// A program to start, without a shell.
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    /// Added to our own environment; sorted by name.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The limits of its sandbox; without one it may use everything.
    pub sandbox: Option<Sandbox>,
}

/// A server to send HTTP requests to.
pub struct Server {
    pub url: Uri,
    pub headers: HeaderMap,
    /// Whether to use only HTTP+SSE.
    pub sse: bool,
    /// A second credential, used for a time after a refusal because of too many requests.
    pub spare: Option<SpareConfig>,
    /// The client certificate that is shown to it.
    pub identity: Option<Identity>,
}

/// `spare`: the headers of a second credential.
pub struct SpareConfig {
    pub headers: HeaderMap,
    pub cool_down: Duration,
}

/// Arguments and environment may hold secrets.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Headers hold a secret.
impl fmt::Debug for SpareConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareConfig").field("cool_down", &self.cool_down).finish_non_exhaustive()
    }
}

/// URL and headers may hold secrets.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.url.host()).finish_non_exhaustive()
    }
}

/// How long a second credential is used.
const COOL_DOWN: Duration = Duration::from_mins(5);
const LONGEST_COOL_DOWN: Duration = Duration::from_hours(1);

/// The gateway sets these headers itself, for every request.
const OWN_HEADERS: [HeaderName; 8] = [
    header::ACCEPT,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    headers::LAST_EVENT_ID,
    headers::PROTOCOL_VERSION,
    headers::SESSION_ID,
    header::TRANSFER_ENCODING,
];

impl Reach {
    /// Takes `command`, `args`, `env`, `env_file`, `cwd` or `url`, `headers` out of a section.
    pub(crate) fn take(section: &mut Section, reader: &mut Reader<'_>) -> Option<Self> {
        let (command, url) = (section.take("command"), section.take("url"));
        let program = ["args", "env", "env_file", "cwd", "sandbox"].map(|key| section.take(key));
        let headers = section.take("headers");
        // A hook has none, so there they are unknown keys.
        let is_hook = section.path.starts_with("hooks");
        let identity =
            ["client_cert", "client_key"].map(|key| if is_hook { None } else { section.take(key) });
        match (command, url) {
            (Some(command), None) => {
                refuse(reader, headers, "url", "a program gets its secrets by `env`");
                for field in identity {
                    refuse(reader, field, "url", "a program gets its secrets by `env`");
                }
                Program::read(reader, &command, program).map(Self::Program)
            }
            (None, Some(url)) => {
                for field in program {
                    refuse(
                        reader,
                        field,
                        "command",
                        "a server that is reached by `url` takes only `headers`",
                    );
                }
                match read_socket(reader, &url) {
                    Some(socket) => {
                        refuse(reader, headers, "an http URL", "lines on a socket have no headers");
                        for field in identity {
                            refuse(reader, field, "an https URL", "lines on a socket have no certificates");
                        }
                        socket.map(Self::Socket)
                    }
                    None => Server::read(reader, &url, headers, identity).map(Self::Server),
                }
            }
            (Some(_), Some(url)) => {
                let help = "keep `command` for a program to start, or `url` for a server to reach";
                url.error(reader, "`command` and `url` exclude each other", help);
                None
            }
            // An unknown key will be reported, with what it should be called.
            (None, None) if section.has_slip_of("command") || section.has_slip_of("url") => None,
            (None, None) => {
                let (command, url) =
                    (reader.example("command", "\"…\""), reader.example("url", "\"https://…/mcp\""));
                let help = format!("add `{command}` for a program to start, or `{url}` for a server");
                reader.error(section.at, &section.path, "neither `command` nor `url` is given", help);
                None
            }
        }
    }
}

impl Reach {
    /// Uses only the legacy transport HTTP+SSE, as `field` asks for.
    pub(crate) fn only_sse(mut self, reader: &mut Reader<'_>, field: &Field) -> Self {
        match &mut self {
            Self::Server(server) => server.sse = true,
            Self::Program(_) | Self::Socket(_) => {
                field.error(
                    reader,
                    "goes only with an http URL",
                    "remove it; only HTTP servers have a choice of transport",
                );
            }
        }
        self
    }
}

impl Reach {
    /// Adds the second credential that `field` gives.
    pub(crate) fn with_spare(mut self, reader: &mut Reader<'_>, field: Field) -> Self {
        match &mut self {
            Self::Server(server) => server.spare = read_spare(reader, field),
            Self::Program(_) | Self::Socket(_) => {
                refuse(reader, Some(field), "an http URL", "nothing else has credentials in `headers`");
            }
        }
        self
    }
}

fn read_spare(reader: &mut Reader<'_>, field: Field) -> Option<SpareConfig> {
    let mut section = field.section(reader)?;
    let (headers, cool_down) = (section.take("headers"), section.take("cool_down"));
    let cool_down = cool_down.and_then(|field| field.duration(reader, LONGEST_COOL_DOWN));
    let Some(headers) = headers else {
        let help = "add `headers` with the second credential, as in `headers` of the server";
        reader.error(section.at, &section.path, "has no `headers`", help);
        section.finish(reader);
        return None;
    };
    let headers = header_map(reader, &headers);
    section.finish(reader);
    Some(SpareConfig { headers, cool_down: cool_down.unwrap_or(COOL_DOWN) })
}

fn refuse(reader: &mut Reader<'_>, field: Option<Field>, goes_with: &str, help: &str) {
    if let Some(field) = field {
        field.error(reader, format!("goes only with `{goes_with}`"), format!("remove it: {help}"));
    }
}

impl Program {
    fn read(
        reader: &mut Reader<'_>,
        command: &Field,
        [args, env, env_file, cwd, sandbox]: [Option<Field>; 5],
    ) -> Option<Self> {
        let sandbox = sandbox.map(|field| read_sandbox(reader, field));
        let has_args = args.is_some();
        let args = args.map(|field| field.expanded_list(reader)).unwrap_or_default();
        let mut env = env.map(|field| environment(reader, &field)).unwrap_or_default();
        let from_file = env_file.and_then(|field| field.env_file(reader)).unwrap_or_default();
        let is_new = |name: &str| env.iter().all(|(own, _)| own != name);
        let from_file: Vec<_> = from_file.into_iter().filter(|(name, _)| is_new(name)).collect();
        env.extend(from_file);
        env.sort();
        let cwd = cwd.and_then(|field| field.expanded(reader)).unwrap_or_default();
        let cwd = absolute(&reader.file.folder().join(reader.below_home(cwd)));
        let text = command.expanded(reader)?;
        let text = reader.below_home(text);
        if text.trim().is_empty() {
            let help = "name one, such as `npx`, or give its full path";
            command.error(reader, "expected a program, found an empty string", help);
            return None;
        }
        let path = reader.file.folder().join(&text);
        let is_path = text.contains('/');
        if is_path && path.is_dir() {
            let help = "name a program, such as `npx`, or the file of one";
            command.warn(reader, "is a folder, not a program", help);
        }
        if text.contains(char::is_whitespace) && !has_args && !(is_path && path.exists()) {
            let mut words = text.split_whitespace().map(|word| format!("\"{word}\""));
            let program = reader.example("command", &words.next().unwrap_or_default());
            let args = reader.example("args", &format!("[{}]", words.collect::<Vec<_>>().join(", ")));
            let message = "is taken as the name of one program, spaces included";
            command.warn(reader, message, format!("write {program} and {args}: no shell splits it"));
        }
        Some(Self { command: text, args, env, cwd, sandbox })
    }
}

/// Reads `sandbox`. A mistake in it is an error, so no server runs with less of a sandbox than was written.
fn read_sandbox(reader: &mut Reader<'_>, field: Field) -> Sandbox {
    let mut sandbox = Sandbox::default();
    let Some(mut section) = field.section(reader) else { return sandbox };
    let folder = reader.file.folder().to_owned();
    let mut paths = |key: &'static str, reader: &mut Reader<'_>| -> Vec<PathBuf> {
        let written = section.take(key).map(|field| field.expanded_list(reader)).unwrap_or_default();
        written.into_iter().map(|text| absolute(&folder.join(reader.below_home(text)))).collect()
    };
    sandbox.read = paths("read", reader);
    sandbox.write = paths("write", reader);
    sandbox.net = section.take("net").and_then(|field| field.flag(reader)).unwrap_or_default();
    section.finish(reader);
    sandbox
}

fn environment(reader: &mut Reader<'_>, field: &Field) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, (field, value)) in field.expanded_table(reader) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = "invalid environment variable: its name must not contain `=`, and neither name nor value may contain NUL";
            field.error(reader, message, "use a name without `=`, and no NUL characters");
        } else {
            variables.push((name, value));
        }
    }
    variables
}

impl Server {
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        url: &Field,
        headers: Option<Field>,
        identity: [Option<Field>; 2],
    ) -> Option<Self> {
        let identity = read_identity(reader, identity);
        let headers = headers.map(|field| header_map(reader, &field)).unwrap_or_default();
        let text = url.expanded(reader)?;
        let uri = text.trim().parse::<Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        let Some(uri) = uri else {
            let help = "write it in full, such as \"https://wiki.example/mcp\"";
            let message = "expected a URL that starts with http://, https://, tcp:// or unix://";
            url.error(reader, message, help);
            return None;
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let header = reader.example("Authorization", "\"Bearer ${TOKEN}\"");
            let help =
                format!("send them as a header: {}", reader.example("headers", &format!("{{ {header} }}")));
            url.error(reader, "must not hold a user name or password", help);
            return None;
        }
        Some(Self { url: uri, headers, sse: false, spare: None, identity })
    }
}

/// A certificate without its key is a mistake, and the other way round.
fn read_identity(reader: &mut Reader<'_>, [certificate, key]: [Option<Field>; 2]) -> Option<Identity> {
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(field), None) | (None, Some(field)) => {
            let help = "give both: `client_cert` and `client_key`, each the path of a file in PEM";
            field.error(reader, "needs the other file, too", help);
            return None;
        }
        (None, None) => return None,
    };
    let mut path = |field: &Field| {
        let text = field.expanded(reader)?;
        Some(absolute(&reader.file.folder().join(reader.below_home(text))))
    };
    Some(Identity { certificate: path(&certificate)?, key: path(&key)? })
}

/// The two sockets that newline JSON-RPC is spoken over. The outer `None`: it is something else.
#[expect(clippy::option_option, reason = "not a socket, and a socket that is wrong, are two things")]
fn read_socket(reader: &mut Reader<'_>, url: &Field) -> Option<Option<SocketSpec>> {
    let Value::Text(written) = url.value() else { return None };
    if written.starts_with("unix://") {
        let path = url.expanded(reader).map(|text| text.trim_start_matches("unix://").to_owned());
        let path = path.map(|path| absolute(&reader.file.folder().join(path)));
        return Some(path.map(SocketSpec::Local));
    }
    if !written.starts_with("tcp://") {
        return None;
    }
    let text = url.expanded(reader)?;
    let address = text.trim_start_matches("tcp://").trim_end_matches('/');
    let is_good = address.parse::<Authority>().is_ok_and(|authority| {
        !authority.host().is_empty() && authority.port_u16().is_some() && !address.contains('@')
    });
    if !is_good {
        let help = "write host and port, such as \"tcp://127.0.0.1:4000\"";
        url.error(reader, "expected tcp://HOST:PORT", help);
    }
    Some(is_good.then(|| SocketSpec::Tcp(address.to_owned())))
}

fn header_map(reader: &mut Reader<'_>, field: &Field) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, (field, value)) in field.expanded_table(reader) {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            let help = "use letters, digits and `-`, as in `X-Api-Key`";
            field.error(reader, "is not the name of an HTTP header", help);
            continue;
        };
        let Ok(mut value) = HeaderValue::from_str(&value) else {
            let help = "look for a line break or another control character in it or in its variables";
            field.error(reader, "holds characters that no HTTP header can carry", help);
            continue;
        };
        if OWN_HEADERS.contains(&name) {
            field.warn(reader, "is left out: the gateway sets this header itself", "remove it");
            continue;
        }
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

/// Makes a path absolute without asking the file system; a missing folder is reported when it is used.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
