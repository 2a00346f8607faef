//! Grants, pending calls and carried states: for which principal they count, how often and how long.

use std::fs;

use serde_json::json;
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
    let subject = ApprovalSubject::new(&origin(Principal::token(principal)), "s:pay", &args);
    let approval = Approval { expires: Duration::from_secs(expires), ..Approval::default() };
    Wanted { subject, approval, args, rule: "config.toml:1".to_owned() }
}

#[test]
fn a_grant_is_for_one_principal_one_tool_and_these_arguments() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    let alice = wanted("alice", json!({ "amount": 1 }), 60);
    let id = approvals.file(&alice, &ClientKey::Connection(1), "alice").unwrap();
    assert_eq!(
        approvals.file(&alice, &ClientKey::Connection(1), "alice"),
        Ok(id.clone()),
        "the same call waits once"
    );
    approvals.decide(&id, true).unwrap();
    assert_eq!(approvals.decide(&id, true), None);
    for other in [wanted("bob", json!({ "amount": 1 }), 60), wanted("alice", json!({ "amount": 2 }), 60)] {
        assert!(!approvals.take(&other.subject, &client).unwrap());
    }
    assert!(approvals.take(&alice.subject, &client).unwrap());
    assert!(!approvals.take(&alice.subject, &client).unwrap(), "it was for one call");
}

#[test]
fn a_grant_survives_a_restart_and_is_not_repeated_by_one() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let alice = wanted("alice", json!({}), 60);
    let id = open(Some(folder.path())).file(&alice, &ClientKey::Connection(1), "alice").unwrap();
    open(Some(folder.path())).decide(&id, true).unwrap();
    assert!(open(Some(folder.path())).take(&alice.subject, &client).unwrap());
    assert!(!open(Some(folder.path())).take(&alice.subject, &client).unwrap());
}

#[test]
fn what_has_expired_grants_nothing() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    let alice = wanted("alice", json!({}), 0);
    let id = approvals.file(&alice, &ClientKey::Connection(1), "alice").unwrap();
    assert_eq!(approvals.decide(&id, true), None);
    assert!(!approvals.take(&alice.subject, &client).unwrap());
    let state = approvals.asked(&alice);
    assert_eq!(approvals.open_state(&state).unwrap().unwrap_err(), "has expired");
}

/// Moves every expiry closer, as if so many seconds had passed.
fn pass(approvals: &Approvals, seconds: u64) {
    let mut change = approvals.change();
    let mut state = approvals.state.lock();
    state.pending.values_mut().for_each(|one| one.expires -= seconds);
    state.grants.iter_mut().for_each(|one| one.expires -= seconds);
    state.used.values_mut().for_each(|expires| *expires -= seconds);
    change.store(state);
}

#[test]
fn a_grant_of_an_operator_ends_when_it_expires() {
    let client = ClientKey::Connection(1);
    for is_for_session in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let approvals = open(Some(folder.path()));
        let mut alice = wanted("alice", json!({}), 60);
        alice.approval.is_for_session = is_for_session;
        let id = approvals.file(&alice, &ClientKey::Connection(1), "alice").unwrap();
        pass(&approvals, 20);
        approvals.decide(&id, true).unwrap();
        let restarted = || open(Some(folder.path()));
        pass(&approvals, 30);
        if is_for_session {
            assert!(approvals.take(&alice.subject, &client).unwrap(), "ten seconds are left");
        }
        assert!(restarted().take(&alice.subject, &client).unwrap(), "also after a restart");
        pass(&approvals, 10);
        for approvals in [&approvals, &restarted()] {
            assert!(!approvals.take(&alice.subject, &client).unwrap(), "for a session: {is_for_session}");
            assert!(approvals.state().grants.is_empty());
        }
        let again = approvals.file(&alice, &ClientKey::Connection(1), "alice").unwrap();
        assert_ne!(again, id, "the call is asked about again");
    }
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
    assert!(approvals.use_once(&nonce, expires).unwrap());
    assert!(!open(Some(folder.path())).use_once(&nonce, expires).unwrap());
    assert!(approvals.open_state(&format!("{state}x")).unwrap().is_err());
    assert!(approvals.open_state("another").is_none());
}

#[test]
fn a_grant_for_a_session_is_for_that_session() {
    let approvals = open(None);
    let alice = wanted("alice", json!({}), 60);
    let session = |id: &str| ClientKey::Session(id.into());
    approvals.grant_session(&alice.subject, &session("one"), Duration::from_mins(1));
    assert!(approvals.take(&alice.subject, &session("one")).unwrap());
    assert!(approvals.take(&alice.subject, &session("one")).unwrap());
    assert!(!approvals.take(&alice.subject, &session("two")).unwrap());
}

#[test]
fn a_grant_of_another_gateway_is_claimed_for_one_call_and_otherwise_used_until_it_expires() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    for (is_once, is_used) in [(true, [false; 3]), (false, [true, true, false])] {
        let subject = wanted("alice", json!({ "once": is_once }), 60).subject;
        let grant =
            Grant { subject: subject.clone(), session: None, is_once, expires: now() + 60, is_shared: true };
        approvals.learn(grant);
        let takes = [0, 10, 50].map(|seconds| {
            pass(&approvals, seconds);
            approvals.take(&subject, &client).unwrap()
        });
        assert_eq!(takes, is_used, "for one call: {is_once}");
    }
}

#[test]
fn a_later_grant_of_another_gateway_replaces_the_one_that_is_known() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    let subject = wanted("alice", json!({}), 60).subject;
    for expires in [20, 60, 40] {
        let (subject, expires) = (subject.clone(), now() + expires);
        approvals.learn(Grant { subject, session: None, is_once: false, expires, is_shared: true });
    }
    pass(&approvals, 50);
    assert!(approvals.take(&subject, &client).unwrap());
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
    assert!(approvals.use_once(&nonce, expires).unwrap());
    assert!(!approvals.use_once(&nonce, expires).unwrap(), "each round is taken up once");
    assert_ne!(expiry(&second).1, nonce);
}

#[test]
fn one_principal_does_not_fill_the_queue() {
    let approvals = open(None);
    let file = |principal: &str, number: usize| {
        approvals.file(&wanted(principal, json!({ "n": number }), 60), &ClientKey::Connection(1), principal)
    };
    for number in 0..MOST_PENDING_EACH {
        assert!(file("alice", number).is_ok());
    }
    assert_eq!(file("alice", MOST_PENDING_EACH), Err(NotFiled::TooMany));
    assert!(file("alice", 0).is_ok(), "what waits already is found");
    assert!(file("bob", 0).is_ok(), "others are not kept out");
}

#[test]
fn a_call_waits_only_if_its_arguments_can_be_shown_whole() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let approvals = open(Some(folder.path()));
    let of = |bytes: usize, number: usize| {
        wanted("alice", json!({ "text": "ä".repeat(bytes / 2), "n": number }), 60)
    };
    let small = of(2_000, 0);
    let id = approvals.file(&small, &client, "alice").unwrap();
    let listed = approvals.to_json().0.remove(0);
    assert_eq!((&listed["arguments"], &listed["cut"]), (&small.args, &Value::Null));
    assert_eq!(approvals.whole_json(&id).unwrap()["arguments"], small.args);
    approvals.decide(&id, true);
    let large = of(100_001, 0);
    let id = approvals.file(&large, &client, "alice").unwrap();
    for approvals in [&approvals, &open(Some(folder.path()))] {
        let listed = approvals.to_json().0.remove(0);
        let whole = large.args.to_string();
        assert!(whole.starts_with(listed["arguments"].as_str().unwrap()), "{listed}");
        assert_eq!((&listed["cut"], &listed["bytes"]), (&json!(true), &json!(whole.len())));
        let shown = approvals.whole_json(&id).unwrap();
        assert_eq!((&shown["arguments"], &shown["digest"]), (&large.args, &listed["digest"]));
    }
    let refused = approvals.file(&of(300_000, 0), &client, "alice").unwrap_err();
    assert!(matches!(refused, NotFiled::TooLarge { .. }), "{refused:?}");
    let waiting =
        (1..100).take_while(|number| approvals.file(&of(200_000, *number), &client, "alice").is_ok());
    assert_eq!(waiting.count(), 9, "two megabytes for one principal");
}

#[test]
fn an_operator_grants_a_session_and_no_other() {
    let approvals = open(None);
    let mut alice = wanted("alice", json!({}), 60);
    alice.approval.is_for_session = true;
    let session = |id: &str| ClientKey::Session(id.into());
    let (one, two) = (
        approvals.file(&alice, &session("one"), "alice").unwrap(),
        approvals.file(&alice, &session("two"), "alice").unwrap(),
    );
    assert_ne!(one, two);
    approvals.decide(&one, true).unwrap();
    for _ in 0..2 {
        assert!(approvals.take(&alice.subject, &session("one")).unwrap());
        assert!(!approvals.take(&alice.subject, &session("two")).unwrap());
    }
}

#[tokio::test]
async fn a_call_that_waits_goes_by_grants_of_its_own_session() {
    let approvals = open(None);
    let mut alice = wanted("alice", json!({}), 60);
    let session = |id: &str| ClientKey::Session(id.into());
    let wait = async |id: &str, client: &str| {
        approvals.wait(id, &alice.subject, &session(client), Duration::from_secs(20)).await
    };
    let id = approvals.file(&alice, &session("one"), "alice").unwrap();
    approvals.decide(&id, true).unwrap();
    assert_eq!(wait(&id, "one").await, Outcome::Approved);
    assert!(approvals.take(&alice.subject, &session("one")).unwrap());
    assert_eq!(wait(&id, "one").await, Outcome::UsedByAnother);
    alice.approval.is_for_session = true;
    let [one, two] = ["one", "two"].map(|id| approvals.file(&alice, &session(id), "alice").unwrap());
    approvals.decide(&one, true).unwrap();
    approvals.decide(&two, false).unwrap();
    assert_eq!(
        approvals.wait(&one, &alice.subject, &session("one"), Duration::ZERO).await,
        Outcome::Approved
    );
    assert_eq!(approvals.wait(&two, &alice.subject, &session("two"), Duration::ZERO).await, Outcome::Denied);
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
                    approvals.use_once(&format!("{thread}-{number}"), now() + 60).unwrap();
                }
            });
        }
    });
    let again = open(Some(folder.path()));
    let all = (0..4).flat_map(|thread| (0..10).map(move |number| format!("{thread}-{number}")));
    assert!(all.into_iter().all(|nonce| !again.use_once(&nonce, now() + 60).unwrap()));
}

#[test]
fn two_gateways_of_one_state_directory_use_each_grant_and_each_answer_once() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let gateways = [open(Some(folder.path())), open(Some(folder.path()))];
    for (one, other) in [(0, 1), (1, 0)].map(|(one, other)| (&gateways[one], &gateways[other])) {
        let alice = wanted("alice", json!({}), 60);
        let id = one.file(&alice, &client, "alice").unwrap();
        assert_eq!(other.file(&alice, &client, "alice"), Ok(id.clone()), "the same call waits once");
        assert_eq!(other.to_json().0.len(), 1);
        other.decide(&id, true).unwrap();
        assert_eq!(one.decide(&id, false), None, "it was decided about");
        assert!(one.take(&alice.subject, &client).unwrap(), "the grant is valid at both");
        // A change that writes the whole file does not bring the grant back.
        assert!(other.use_once(&id, now() + 60).unwrap());
        assert!(!other.take(&alice.subject, &client).unwrap());
        assert!(!one.use_once(&id, now() + 60).unwrap());
    }
    let again = open(Some(folder.path()));
    assert!(again.to_json().0.is_empty() && again.state().grants.is_empty());
}

#[tokio::test]
async fn a_call_that_waits_learns_a_decision_of_another_gateway_with_the_next_change() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let [one, other] = [open(Some(folder.path())), open(Some(folder.path()))];
    let alice = wanted("alice", json!({}), 60);
    let id = one.file(&alice, &client, "alice").unwrap();
    let waits = one.wait(&id, &alice.subject, &client, Duration::from_secs(20));
    let decides = async {
        other.decide(&id, true).unwrap();
        one.refresh();
    };
    assert_eq!(tokio::join!(waits, decides).0, Outcome::Approved);
}

#[test]
fn nothing_is_used_that_cannot_be_stored_as_used() {
    let (folder, client) = (tempfile::tempdir().unwrap(), ClientKey::Connection(1));
    let approvals = open(Some(folder.path()));
    let alice = wanted("alice", json!({}), 60);
    let id = approvals.file(&alice, &ClientKey::Connection(1), "alice").unwrap();
    approvals.decide(&id, true).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    approvals.take(&alice.subject, &client).unwrap_err();
    approvals.use_once("nonce", now() + 60).unwrap_err();
    fs::create_dir(folder.path()).unwrap();
    assert!(approvals.take(&alice.subject, &client).unwrap(), "the grant is kept");
    assert!(approvals.use_once("nonce", now() + 60).unwrap(), "the answer is not used up");
    assert!(!open(Some(folder.path())).take(&alice.subject, &client).unwrap());
    assert!(!open(Some(folder.path())).use_once("nonce", now() + 60).unwrap());
}

#[test]
fn a_decided_call_is_never_seen_without_its_decision() {
    let (approvals, client) = (open(None), ClientKey::Connection(1));
    for amount in 0..200 {
        let alice = wanted("alice", json!({ "amount": amount }), 60);
        let id = approvals.file(&alice, &client, "alice").unwrap();
        std::thread::scope(|scope| {
            let (approvals, id) = (&approvals, &*id);
            let is_decided = move || {
                let state = approvals.state();
                let is_known = state.decided.iter().any(|one| one.id.as_deref() == Some(id));
                assert!(is_known || state.pending.contains_key(id), "neither waiting nor decided");
                is_known
            };
            scope.spawn(move || while !is_decided() {});
            scope.spawn(move || approvals.decide(id, true).unwrap());
        });
    }
}
