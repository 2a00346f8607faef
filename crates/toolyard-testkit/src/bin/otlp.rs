//! The receiver of traces as a program: prints its URL, and then each span as a line of JSON. Ends when stdin does.

use std::io::Write as _;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use toolyard_model::Scope;
use toolyard_testkit::otlp::{Span, serve};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let scope = Scope::new();
    let take = |spans: Result<Vec<Span>, &'static str>| {
        let mut out = std::io::stdout().lock();
        let _ = match spans {
            Ok(spans) => spans.iter().try_for_each(|span| writeln!(out, "{}", span.to_json())),
            Err(why) => writeln!(out, "{{\"rejected\":\"{why}\"}}"),
        };
        let _ = out.flush();
    };
    let address = serve(Arc::new(take), &scope).await?;
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "http://{address}")?;
        out.flush()?;
    }
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    scope.end().await;
    Ok(())
}
