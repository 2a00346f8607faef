//! What a permission of the owner allows an agent that speaks the protocol.

use super::*;

/// An agent that asks for a permission with the options in `$OPTIONS`, and reports the option that it got.
const ACP: &str = r#"
read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read line
echo '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"toolCall":{"title":"rm x","kind":"execute"},"options":'$OPTIONS'}}'
read answer
case "$answer" in *'"optionId":"'*) word=${answer#*optionId\":\"}; word=${word%%\"*};; *'"cancelled"'*) word=cancelled;; *) word=lost;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
exec sleep 1000
"#;

/// An agent with options of these kinds, each with its kind as its id.
fn bench(kinds: &[&str]) -> Bench {
    let options: Vec<Value> = kinds.iter().map(|kind| json!({ "optionId": kind, "kind": kind })).collect();
    let options = json!(options).to_string();
    Bench::with(json!({ "program": "acp", "command": ["sh", "-c", ACP], "env": { "OPTIONS": options } }))
}

/// What the agent got when its owner allowed what it asks for, or did not.
async fn answered(kinds: &[&str], allow: bool) -> String {
    let bench = bench(kinds);
    let run = bench.start("x", 60).unwrap();
    let live = bench.agents.under_way(&run).unwrap();
    live.asked.notified().await;
    live.take_question().unwrap().reply.send(allow).unwrap();
    bench.agents.wait(&Context::detached(), &run).await.unwrap().result.unwrap()
}

#[tokio::test]
async fn a_permission_for_one_time_never_selects_a_lasting_grant() {
    let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
    assert_eq!(answered(&all, true).await, "allow_once");
    assert_eq!(answered(&all, false).await, "reject_once");
    assert_eq!(answered(&["allow_once", "reject_always"], false).await, "reject_always");
    assert_eq!(answered(&["allow_once"], false).await, "cancelled");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_allows_nothing() {
    let bench = bench(&["allow_once", "reject_once"]);
    let run = bench.start("x", 60).unwrap();
    let run = bench.agents.wait(&Context::detached(), &run).await.unwrap();
    assert_eq!(run.result.as_deref(), Some("reject_once"));
}

#[tokio::test]
async fn an_agent_that_offers_only_a_lasting_grant_is_refused_with_the_reason_and_without_a_question() {
    for (kinds, expected) in [
        (&["allow_always", "reject_once"][..], "reject_once"),
        (&["allow_always"][..], "cancelled"),
        (&[][..], "cancelled"),
    ] {
        let bench = bench(kinds);
        // It ends without an answer of the owner, who would have to be waited for.
        let run = bench.start("x", 20).unwrap();
        let live = bench.agents.under_way(&run).unwrap();
        live.ended().await;
        assert!(live.take_question().is_none(), "{kinds:?}");
        let run = bench.agents.wait(&Context::detached(), &run).await.unwrap();
        assert_eq!((run.status, run.result.as_deref()), (Status::Completed, Some(expected)), "{kinds:?}");
        let reason = "[rejected] rm x: the agent offers no permission for one time";
        assert!(bench.agents.store.tail(&run.id, 5).contains(&reason.to_owned()), "{kinds:?}");
    }
}
