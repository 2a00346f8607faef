//! `agent_context`: the log line, the fallback and the cost report.

use std::sync::OnceLock;

use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::ledger::Requests;

/// Collects the log.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    pub(super) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        // While there is only one subscriber, a line that a thread without it logs first is off in all threads.
        static ANOTHER: OnceLock<tracing::Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| tracing_subscriber::fmt().with_writer(std::io::sink).finish().into());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(self.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_logged_with_its_agent_model_and_description() {
    let log = Log::default();
    let _guard = log.listen();
    let bench = Bench::new([]);
    bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap();
    assert!(log.text().contains("[explore] → gemini-3-flash: Find authentication code..."), "{}", log.text());
}

fn with_fallback() -> Value {
    config(json!({ "fallback": "spare-model" }))
}

fn spare_answer() -> Does {
    Does::Stream(vec![json!({ "choices": [{ "delta": { "content": "spare" }, "finish_reason": "stop" }] })])
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_some_types_gets_the_answer_of_the_fallback() {
    for failure in [vec![Does::Fail(500); 2], vec![Does::Fail(429); 2], vec![Does::Unreachable]] {
        let steps = failure.into_iter().chain([spare_answer()]);
        let bench = Bench::with(with_fallback(), steps, |_, input| Verdict::Continue(input));
        let answered = bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap();
        assert_eq!((answered.reply.text.as_str(), answered.provider.as_str()), ("spare", "spare"));
    }
}

#[tokio::test(start_paused = true)]
async fn other_agents_and_mistakes_in_the_request_have_no_fallback() {
    let check = async |agent: &str, status: u16| {
        let steps = [Does::Fail(status), Does::Fail(status), spare_answer()];
        let bench = Bench::with(with_fallback(), steps, |_, input| Verdict::Continue(input));
        let context = AgentContext { agent_type: Some(agent.into()), ..AgentContext::default() };
        bench.ask(gemini(json!({ "agent_context": context }))).await.unwrap_err();
    };
    check("delphi", 500).await;
    check("explore", 400).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_changes_the_agent_changes_the_log_line_and_the_fallback() {
    let log = Log::default();
    let _guard = log.listen();
    let steps = [Does::Fail(500), Does::Fail(500), spare_answer()];
    let bench = Bench::with(with_fallback(), steps, |point, mut input| {
        if point == "pre_model_invoke" {
            input["agent_context"]["agent_type"] = "dewey".into();
        }
        Verdict::Continue(input)
    });
    let context = AgentContext { agent_type: Some("delphi".into()), ..explore() };
    let answered = bench.ask(gemini(json!({ "agent_context": context }))).await.unwrap();
    assert_eq!(answered.provider, "spare");
    assert!(log.text().contains("[dewey] → gemini-3-flash: Find authentication code..."), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn the_cost_report_adds_up_by_agent_session_and_model_and_never_guesses_a_price() {
    let bench = Bench::new([]);
    bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap();
    bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap();
    bench.ask(gemini(json!({ "model": "gemini-3-pro-high" }))).await.unwrap();
    let report = bench.models.ledger.report(Requests::default()).unwrap();
    // 100 tokens at 1.0 and 25 at 10.0 a million.
    let one = 0.000_35;
    assert!((report.by_agent[0].cost.unwrap() - 2.0 * one).abs() < 1e-12, "{report:?}");
    let names = |sums: &[crate::ledger::Sum]| sums.iter().map(|sum| sum.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&report.by_agent), ["explore", ""]);
    assert_eq!(names(&report.by_session), ["s-1", ""]);
    assert_eq!(names(&report.by_model), ["google/gemini-3-flash", "google/gemini-3-pro-high"]);
    assert_eq!((report.by_model[1].cost, report.by_model[1].without_price), (None, 1));
    assert_eq!((report.total.requests, report.total.input_tokens, report.total.output_tokens), (3, 300, 75));
    assert_eq!(report.prices, ["google/gemini-3-flash: 2026-11-18"]);
    let only = bench.models.ledger.report(Requests { session: Some("s-1"), ..Requests::default() }).unwrap();
    assert_eq!(only.total.requests, 2);
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_counted_and_cost_nothing() {
    let bench = Bench::new([Does::Fail(500), Does::Fail(500)]);
    bench.ask(gemini(json!({}))).await.unwrap_err();
    let report = bench.models.ledger.report(Requests::default()).unwrap();
    assert_eq!((report.total.requests, report.total.failed, report.total.cost), (2, 2, None));
}

#[tokio::test(start_paused = true)]
async fn a_principal_sees_its_own_costs_and_those_of_its_runs_and_no_others() {
    let bench = Bench::new([]);
    for principal in ["ann", "ann/agent_1", "ann/agent_1/agent_2", "anna", "bob"] {
        bench.ask(Invocation { principal: principal.into(), ..gemini(json!({})) }).await.unwrap();
    }
    let requests = |principal| {
        let report = bench.models.ledger.report(Requests { principal, ..Requests::default() }).unwrap();
        assert_eq!(report.prices.len(), usize::from(report.total.requests > 0));
        report.total.requests
    };
    let of = |principal| requests(Some(principal));
    assert_eq!((of("ann"), of("ann/agent_1"), of("bob"), of("an"), requests(None)), (3, 2, 1, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn hooks_before_a_call_see_the_fallback_and_may_refuse_or_change_it() {
    let failing = || [Does::Fail(429), Does::Fail(429), spare_answer()];
    let bench = Bench::with(with_fallback(), failing(), |point, input| {
        if point == "pre_model_invoke" && input["model"] == "spare-model" {
            return Verdict::Block("it is not for this project".into());
        }
        Verdict::Continue(input)
    });
    let error = bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap_err();
    assert_eq!(error.message(), "a hook refused this call of a model: it is not for this project");
    assert!(bench.script.sent().iter().all(|sent| !sent.url.contains("spare")));

    let bench = Bench::with(with_fallback(), failing(), |point, mut input| {
        if point == "pre_model_invoke" && input["model"] == "spare-model" {
            input["prompt"] = "nothing secret".into();
        }
        Verdict::Continue(input)
    });
    bench.ask(gemini(json!({ "agent_context": explore() }))).await.unwrap();
    let sent = bench.script.sent();
    let last = sent.last().unwrap();
    assert!(last.url.contains("spare") && last.body.to_string().contains("nothing secret"), "{last:?}");
    assert!(!last.body.to_string().contains("the secret prompt"), "{last:?}");
}
