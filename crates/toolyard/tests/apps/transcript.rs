//! Plays the conversation in the guide: what it shows is what is sent.

use serde_json::{Value, json};

use crate::support::{App, Door, Yard, eventually};

fn transcript() -> Vec<String> {
    let guide = include_str!("../../../../docs/guide/app-protocol.md");
    let (_, rest) = guide.split_once("```app-transcript\n").expect("the guide has a transcript");
    let (lines, _) = rest.split_once("```").unwrap();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn the_conversation_in_the_guide_is_as_it_is_written() {
    for door in Door::ALL {
        let yard = Yard::start("");
        let mut app = App::connect(&yard, door);
        let mut agent = yard.agent();
        let mut called = 0;
        for line in transcript() {
            let (who, rest) = line.split_once(' ').unwrap();
            match (who, rest.split_once(' ')) {
                (">", _) => app.write(format!("{rest}\n").as_bytes()),
                ("<", _) => assert_eq!(masked(app.next()), masked(serde_json::from_str(rest).unwrap())),
                ("$", Some(("call", call))) => {
                    let (name, arguments) = call.split_once(' ').unwrap();
                    eventually("the tool", || agent.tools().contains(&name.to_owned()).then_some(()));
                    called = agent.send_call(name, &serde_json::from_str(arguments).unwrap());
                }
                ("$", Some(("answer", expected))) => {
                    let mut result = agent.answer(called)["result"].take();
                    for ours in ["resultType", "_meta"] {
                        result.as_object_mut().unwrap().remove(ours);
                    }
                    assert_eq!(result, serde_json::from_str::<Value>(expected).unwrap());
                }
                _ => panic!("what is this: {line}"),
            }
        }
        assert!(app.is_closed());
        agent.wait_for_tools(&[]);
    }
}

fn masked(mut message: Value) -> Value {
    if message.get("sessionId").is_some() {
        message["sessionId"] = json!("…");
    }
    message
}
