//! A server on `rmcp`, of both eras, in this process.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::gateway::Reach;

type Service = StreamableHttpService<Peer, LocalSessionManager>;

/// Ends with its guard.
pub(crate) struct RustServer {
    url: String,
    _tasks: JoinSet<()>,
}

impl RustServer {
    pub(crate) async fn start() -> Self {
        let config = StreamableHttpServerConfig::default();
        let service: Service = StreamableHttpService::new(|| Ok(Peer), Arc::default(), config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, service));
        Self { url, _tasks: tasks }
    }

    pub(crate) fn reach(&self) -> Reach {
        Reach::Url(self.url.clone())
    }
}

async fn accept(listener: TcpListener, service: Service) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.handle(request).await) }
            });
            // A client that disconnects is ignored.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

#[derive(Clone)]
struct Peer;

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str, description: &'static str, properties: Value| {
            let schema = json!({ "type": "object", "properties": properties });
            Tool::new(name, description, schema.as_object().cloned().unwrap())
        };
        Ok(ListToolsResult::with_all_items(vec![
            tool("echo", "Answers with its text", json!({ "text": { "type": "string" } })),
            tool("count", "Reports progress", json!({})),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match request.name.as_ref() {
            "echo" => {
                let arguments = Value::from(request.arguments.unwrap_or_default());
                format!("Rust: {}", arguments["text"].as_str().unwrap_or_default())
            }
            "count" => {
                count(&context).await;
                "Counted to three".to_owned()
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn count(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    for step in 1..=3 {
        let note = ProgressNotificationParam::new(token.clone(), f64::from(step)).with_total(3.0);
        context.peer.notify_progress(note).await.unwrap();
    }
}
