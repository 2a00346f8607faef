//! A client on `rmcp`.

#![expect(deprecated, reason = "sampling is on its way out, and until it is gone it must work")]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, GetPromptRequestParams, Implementation,
    ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, SamplingMessage,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::stop::{Answer, Seen, Stop};

/// For one stop.
const WAIT: Duration = Duration::from_mins(1);
/// Progress is handled by tasks of its own; it may be recorded a moment after the answer.
const LATE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Initialize,
    Discover,
    Auto,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Initialize, Self::Discover, Self::Auto];

    fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
            Self::Auto => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        }
    }
}

/// What happens on the client's side of a call.
#[derive(Clone, Default)]
struct Visitor {
    asked: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<f64>>>,
}

impl ClientHandler for Visitor {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_sampling().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rust-peer", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.lock().push("elicitation/create".to_owned());
        let request = serde_json::to_value(request).unwrap();
        let required = request["requestedSchema"]["required"].as_array().cloned().unwrap_or_default();
        let content: Value = required.iter().map(|name| (name.as_str().unwrap(), "Ada")).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.asked.lock().push("sampling/createMessage".to_owned());
        let message = SamplingMessage::assistant_text("A model would say so.");
        Ok(CreateMessageResult::new(message, "script".to_owned()).with_stop_reason("endTurn"))
    }

    async fn on_progress(&self, note: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().push(note.progress);
    }
}

/// What the client saw at each stop.
pub(crate) async fn visit(mode: Mode, stops: &[Stop]) -> Result<Vec<Seen>, String> {
    let mut all = Vec::new();
    for stop in stops {
        let seen = timeout(WAIT, go(mode, stop)).await;
        let seen = seen.unwrap_or_else(|_| Err(format!("not back after {WAIT:?}")));
        all.push(seen.map_err(|error| format!("at {}: {error}", stop.url))?);
    }
    Ok(all)
}

type Client = RunningService<RoleClient, Visitor>;

async fn go(mode: Mode, stop: &Stop) -> Result<Seen, String> {
    let config = StreamableHttpClientTransportConfig::with_uri(stop.url.clone());
    let transport = StreamableHttpClientTransport::from_config(config);
    let visitor = Visitor::default();
    let client = visitor.clone().serve_with_lifecycle(transport, mode.lifecycle()).await;
    let client = client.map_err(|error| format!("connect: {error:?}"))?;
    let seen = look(&client, &visitor, stop).await.map_err(|error| error.to_string());
    let ended = client.cancel().await;
    ended.map_err(|error| format!("leave: {error:?}"))?;
    seen
}

async fn look(client: &Client, visitor: &Visitor, stop: &Stop) -> Result<Seen, rmcp::ServiceError> {
    let version = client.peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default();
    let tools = client.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect();
    let mut seen = Seen { version, tools, ..Seen::default() };
    for at in 0..stop.calls.len() {
        seen.calls.push(call(client, visitor, stop, at).await?);
    }
    if let Some(uri) = &stop.resource {
        seen.resources =
            client.list_all_resources().await?.into_iter().map(|resource| resource.uri.clone()).collect();
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        seen.read = Some(texts(&json!(read)["contents"]));
    }
    if let Some(name) = &stop.prompt {
        seen.prompts = client.list_all_prompts().await?.into_iter().map(|prompt| prompt.name).collect();
        let got = client.get_prompt(GetPromptRequestParams::new(name)).await?;
        let messages = json!(got)["messages"].as_array().cloned().unwrap_or_default();
        seen.got = Some(texts(&messages.iter().map(|message| message["content"].clone()).collect()));
    }
    Ok(seen)
}

async fn call(
    client: &Client,
    visitor: &Visitor,
    stop: &Stop,
    at: usize,
) -> Result<Answer, rmcp::ServiceError> {
    visitor.asked.lock().clear();
    visitor.progress.lock().clear();
    let call = &stop.calls[at];
    let arguments = call.arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(call.name.clone()).with_arguments(arguments);
    let result = client.call_tool(params).await?;
    let all_reported = async {
        while visitor.progress.lock().len() < stop.progress_of(at) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // What is missing shows in the answer.
    let _ = timeout(LATE, all_reported).await;
    let mut progress = visitor.progress.lock().clone();
    progress.sort_by(f64::total_cmp);
    let asked = visitor.asked.lock().clone();
    Ok(Answer { text: texts(&json!(result)["content"]), asked, progress })
}

fn texts(blocks: &Value) -> String {
    let texts: Vec<&str> =
        blocks.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}
