//! Grants, pending calls and carried states: for which principal they count, how often and how long.

use toolyard_model::{Principal, View};
use toolyard_proto::Revision;

use super::*;

fn open(folder: Option<&Path>) -> Approvals {
    Approvals::open(folder, Arc::new(StateKeys::new(folder)))
}

fn origin(principal: Principal) -> Origin {
    Origin::new(View::Everything, principal, ClientKey::Connection(1), Revision::NEWEST)
}

fn wanted(principal: &str, args: Value, expires: u64) -> Wanted {
    let subject = Subject::new(&origin(Principal::token(principal)), "s:pay", &args);
    let approval = Approval { expires: Duration::from_secs(expires), ..Approval::default() };
    Wanted { subject, approval, args, rule: "config.toml:1".to_owned() }
}

#[test]
fn a_grant_is_for_one_principal_one_tool_and_these_arguments() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    let alice = wanted("alice", json!({ "amount": 1 }), 60);
    let id = approvals.file(&alice, "alice").unwrap();
    assert_eq!(approvals.file(&alice, "alice"), Some(id.clone()), "the same call waits once");
    approvals.decide(&id, true).unwrap();
    assert_eq!(approvals.decide(&id, true), None);
    for other in [wanted("bob", json!({ "amount": 1 }), 60), wanted("alice", json!({ "amount": 2 }), 60)] {
        assert!(!approvals.take(&other.subject, &client));
    }
    assert!(approvals.take(&alice.subject, &client));
    assert!(!approvals.take(&alice.subject, &client), "it was for one call");
}

#[test]
fn a_grant_survives_a_restart_and_is_not_repeated_by_one() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let alice = wanted("alice", json!({}), 60);
    let id = open(Some(folder.path())).file(&alice, "alice").unwrap();
    open(Some(folder.path())).decide(&id, true).unwrap();
    assert!(open(Some(folder.path())).take(&alice.subject, &client));
    assert!(!open(Some(folder.path())).take(&alice.subject, &client));
}

#[test]
fn what_has_expired_grants_nothing() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    let alice = wanted("alice", json!({}), 0);
    let id = approvals.file(&alice, "alice").unwrap();
    assert_eq!(approvals.decide(&id, true), None);
    assert!(!approvals.take(&alice.subject, &client));
    let state = approvals.asked(&alice);
    assert_eq!(approvals.open_state(&state).unwrap().unwrap_err(), "has expired");
}

#[test]
fn an_answer_is_used_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = open(Some(folder.path()));
    let state = approvals.asked(&wanted("alice", json!({}), 60));
    let approvals = open(Some(folder.path()));
    let Some(Ok(Carried::Asked { nonce, subject, expires, .. })) = approvals.open_state(&state) else {
        panic!("the keys are kept")
    };
    assert!(subject.is_of(&origin(Principal::token("alice")), "s:pay"));
    assert!(!subject.is_of(&origin(Principal::token("bob")), "s:pay"));
    assert!(!subject.is_of(&origin(Principal::token("alice")), "s:read"));
    assert!(approvals.use_once(&nonce, expires));
    assert!(!open(Some(folder.path())).use_once(&nonce, expires));
    assert!(approvals.open_state(&format!("{state}x")).unwrap().is_err());
    assert!(approvals.open_state("another").is_none());
}

#[test]
fn a_grant_for_a_session_is_for_that_session() {
    let approvals = open(None);
    let alice = wanted("alice", json!({}), 60);
    let session = |id: &str| ClientKey::Session(id.into());
    approvals.grant_session(&alice.subject, &session("one"), Duration::from_mins(1));
    assert!(approvals.take(&alice.subject, &session("one")));
    assert!(approvals.take(&alice.subject, &session("one")));
    assert!(!approvals.take(&alice.subject, &session("two")));
}

#[test]
fn the_time_for_questions_of_an_upstream_begins_with_the_first_one() {
    let approvals = open(None);
    let alice = wanted("alice", json!({}), 60);
    let expiry = |state: &str| match approvals.open_state(state) {
        Some(Ok(Carried::Granted { expires, nonce, .. })) => (expires, nonce),
        other => panic!("{other:?}"),
    };
    let first = approvals.granted(&alice.subject, Some("s".into()), None, Duration::from_mins(10));
    let (expires, nonce) = expiry(&first);
    assert!((now() + 599..=now() + 600).contains(&expires));
    let second = approvals.granted(&alice.subject, None, Some(now() + 7), Duration::from_mins(10));
    assert!(expiry(&second).0 <= now() + 7, "a later round has no more time");
    assert!(approvals.use_once(&nonce, expires));
    assert!(!approvals.use_once(&nonce, expires), "each round is taken up once");
    assert_ne!(expiry(&second).1, nonce);
}

#[test]
fn one_principal_does_not_fill_the_queue() {
    let approvals = open(None);
    let file = |principal: &str, number: usize| {
        approvals.file(&wanted(principal, json!({ "n": number }), 60), principal)
    };
    for number in 0..MOST_PENDING_EACH {
        assert!(file("alice", number).is_some());
    }
    assert!(file("alice", MOST_PENDING_EACH).is_none());
    assert!(file("alice", 0).is_some(), "what waits already is found");
    assert!(file("bob", 0).is_some(), "others are not kept out");
}

#[test]
fn changes_made_at_the_same_time_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let approvals = open(Some(folder.path()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let approvals = &approvals;
            scope.spawn(move || {
                for number in 0..10 {
                    approvals.use_once(&format!("{thread}-{number}"), now() + 60);
                }
            });
        }
    });
    let again = open(Some(folder.path()));
    let all = (0..4).flat_map(|thread| (0..10).map(move |number| format!("{thread}-{number}")));
    assert!(all.into_iter().all(|nonce| !again.use_once(&nonce, now() + 60)));
}
