//! Rules against a naive interpreter, conditions, and what a call costs.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::policy::matches;
use super::*;

/// What the rules mean, word for word.
fn naive(rules: &[Rule], default: Do, who: &Who<'_, &str>, target: &Target<'_>, args: &Value) -> Do {
    let Some((rule, rest)) = rules.split_first() else { return default };
    let matched = rule.concerns(who) && rule.is_about(target);
    let action = match matched.then(|| matches(rule, who, target.canonical, args)) {
        None | Some(Ok(false)) => return naive(rest, default, who, target, args),
        Some(Ok(true)) => rule.action,
        Some(Err(_)) => Do::Deny,
    };
    if !rule.annotations.is_empty() && !target.is_trusted {
        return action.max(naive(rest, default, who, target, args));
    }
    action
}

fn rule(action: Do) -> Rule {
    Rule {
        who: Vec::new(),
        names: Names::default(),
        annotations: Annotations::default(),
        args: Vec::new(),
        when: None,
        action,
        approval: Approval::default(),
        place: String::new(),
    }
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let who = prop::sample::subsequence(vec!["alice", "bob", "role:ops", "class:guest", "a*"], 0..3);
    let patterns = || prop::sample::subsequence(vec!["files:read", "files:*", "*:write", "wiki:read"], 0..3);
    let names = (patterns(), patterns(), patterns());
    let hint = || prop::option::weighted(0.2, any::<bool>());
    let args = prop::option::weighted(0.3, prop::sample::select(vec!["/data", "/etc"]));
    let whens = ["args.n < 5", "args.missing == 1", "who.name == 'alice'", "args.n", "'ops' in who.roles"];
    let when = prop::option::weighted(0.3, prop::sample::select(whens.to_vec()));
    let action = prop::sample::select(vec![Do::Allow, Do::Approve, Do::Deny, Do::Hide]);
    (who, names, hint(), hint(), args, when, action).prop_map(
        |(who, (tools, prompts, resources), read_only, destructive, below, when, action)| Rule {
            who: who.into_iter().map(str::to_owned).collect(),
            names: Names { tools: owned(tools), prompts: owned(prompts), resources: owned(resources) },
            annotations: Annotations { read_only, destructive, ..Annotations::default() },
            args: below
                .map(|folder| {
                    ("/path".to_owned(), Test { below: Some(folder.to_owned()), ..Test::default() })
                })
                .into_iter()
                .collect(),
            when: when.map(|when| Condition::compile(when).unwrap()),
            ..rule(action)
        },
    )
}

proptest! {
    #[test]
    fn compiled_rules_decide_as_a_naive_interpreter_does(
        rules in prop::collection::vec(any_rule(), 0..8),
        default in prop::sample::select(vec![Do::Allow, Do::Deny]),
        calls in prop::collection::vec(
            (
                prop::sample::select(vec![
                    ("alice", &[][..], &["ops"][..], ""), ("bob", &[][..], &[][..], "guest"),
                    ("carol", &[][..], &["ops", "dev"][..], ""), ("bob/run", &["bob"][..], &[][..], "guest"),
                ]),
                prop::sample::select(vec![Kind::Tool, Kind::Prompt, Kind::Resource]),
                prop::sample::select(vec!["files:read", "files:write", "wiki:read"]),
                any::<[bool; 3]>(),
                prop::sample::select(vec!["/data/x", "/data/../etc", "/etc", "/var"]),
                0..10,
            ),
            1..10,
        ),
    ) {
        let policy = Policy::new(rules.clone(), default);
        for ((name, parents, roles, class), kind, canonical, [read_only, destructive, is_trusted], path, n) in calls {
            let who = Who { name, parents, roles, class };
            let annotations = Annotations {
                read_only: Some(read_only), destructive: Some(destructive),
                idempotent: Some(false), open_world: Some(true),
            };
            let target = Target { kind, canonical, annotations, is_trusted };
            let args = json!({ "path": path, "n": n });
            let verdict = policy.class_of(&who).verdict(&target);
            let expected = naive(&rules, default, &who, &target, &args);
            let decision = verdict.decide(&who, canonical, &args);
            prop_assert_eq!(decision.action, expected);
            prop_assert!(verdict.may_call() || !expected.is_permissive(), "a tool that may be called is seen");
            if let Some(settled) = verdict.settled() {
                prop_assert_eq!(settled.action, expected);
            }
        }
    }
}

#[test]
fn a_rule_is_about_the_kinds_that_it_names() {
    let target =
        |kind| Target { kind, canonical: "s:x", annotations: Annotations::default(), is_trusted: false };
    let check = |rule: &Rule, expected: [bool; 3]| {
        let kinds = [Kind::Tool, Kind::Prompt, Kind::Resource];
        assert_eq!(kinds.map(|kind| rule.is_about(&target(kind))), expected, "{:?}", rule.names);
    };
    let any = || vec!["*".to_owned()];
    check(&rule(Do::Deny), [true; 3]);
    check(
        &Rule { names: Names { tools: any(), ..Names::default() }, ..rule(Do::Deny) },
        [true, false, false],
    );
    check(
        &Rule { names: Names { prompts: any(), ..Names::default() }, ..rule(Do::Deny) },
        [false, true, false],
    );
    check(
        &Rule { names: Names { resources: any(), ..Names::default() }, ..rule(Do::Deny) },
        [false, false, true],
    );
    let annotations = Annotations { read_only: Some(false), ..Annotations::default() };
    let of_tool = Target { annotations, ..target(Kind::Tool) };
    let annotated = Rule { annotations, ..rule(Do::Deny) };
    assert!(annotated.is_about(&of_tool) && !annotated.is_about(&Target { kind: Kind::Prompt, ..of_tool }));
}

#[test]
fn a_rule_about_a_principal_is_about_its_agents() {
    let decide = |rule: Rule, name: &str, parents: &[&str]| {
        let who = Who { name, parents, roles: &[], class: "" };
        let annotations = Annotations::default();
        let tool = Target { kind: Kind::Tool, canonical: "bank:pay", annotations, is_trusted: true };
        let policy = Policy::new(vec![rule], Do::Allow);
        policy.class_of(&who).verdict(&tool).decide(&who, tool.canonical, &Value::Null).action
    };
    let of = |pattern: &str| Rule { who: owned(vec![pattern]), ..rule(Do::Deny) };
    let nested = ["ann", "ann/run-1"];
    assert_eq!(decide(of("ann"), "ann/run-1", &nested[..1]), Do::Deny);
    assert_eq!(decide(of("ann"), "ann/run-1/run-2", &nested), Do::Deny);
    assert_eq!(decide(of("ann/*"), "ann/run-1", &nested[..1]), Do::Deny);
    assert_eq!(decide(of("ann/*"), "ann", &[]), Do::Allow, "the agents alone");
    assert_eq!(decide(of("ann"), "ann/run-1", &[]), Do::Allow, "a token of this name is not an agent");
    let when = |condition| Rule { when: Some(Condition::compile(condition).unwrap()), ..rule(Do::Deny) };
    for condition in ["who.name == 'ann'", "who.name != 'bob' && who.is_agent"] {
        assert_eq!(decide(when(condition), "ann/run-1/run-2", &nested), Do::Deny, "{condition}");
    }
    for condition in ["who.name != 'ann'", "!who.is_agent"] {
        assert_eq!(decide(when(condition), "ann/run-1", &nested[..1]), Do::Allow, "{condition}");
    }
}

#[test]
fn dot_segments_are_found_in_every_form() {
    for uri in [
        "file:///srv/../etc",
        "file:///srv/..",
        "file:///srv/%2e%2e/etc",
        "file:///srv/%2E./etc",
        "file:///srv/.%2e%2fetc",
        "file:///srv/x%2F..%2Fetc",
        r"file:///srv\..\etc",
        "file:///srv/#/../../etc",
        "app://x?path=../y",
        "file:../x",
        "file:///./x",
    ] {
        assert!(has_dot_segments(uri), "{uri}");
    }
    for uri in
        ["file:///srv/a..b", "file:///srv/...", "file:///srv/.hidden", "file:///srv/a.", "note://x%", "x:%2"]
    {
        assert!(!has_dot_segments(uri), "{uri}");
    }
}

#[test]
fn arguments_are_tested_as_they_are() {
    let test = |value: Value, test: Test| test.holds(Some(&value));
    let none = Test::default;
    assert!(test(json!("/data/a"), Test { below: Some("/data".into()), ..none() }));
    assert!(!test(json!("/dataly"), Test { below: Some("/data".into()), ..none() }));
    assert!(!test(json!("/data/../etc"), Test { below: Some("/data".into()), ..none() }));
    assert!(test(json!(1.0), Test { equals: Some(json!(1)), ..none() }));
    assert!(test(json!("b"), Test { one_of: Some(vec![json!("a"), json!("b")]), ..none() }));
    assert!(!test(json!("100"), Test { max: Some(100.0), ..none() }), "a text is not a number");
    assert!(test(json!("a.txt"), Test { matches: Some("*.txt".into()), ..none() }));
    assert!(!Test { starts_with: Some("/".into()), ..none() }.holds(None));
    assert!(Test { exists: Some(false), ..none() }.holds(None));
}

#[test]
fn a_condition_that_fails_denies() {
    let who: Who<'_, &str> = Who { name: "alice", parents: &[], roles: &[], class: "" };
    let tool = Target {
        kind: Kind::Tool,
        canonical: "bank:pay",
        annotations: Annotations::default(),
        is_trusted: true,
    };
    let check = |when: &str, args: Value| {
        let when = Some(Condition::compile(when).unwrap());
        let policy = Policy::new(vec![Rule { when, ..rule(Do::Allow) }], Do::Deny);
        policy.class_of(&who).verdict(&tool).decide(&who, tool.canonical, &args)
    };
    assert_eq!(check("args.amount < 100", json!({ "amount": 5 })).action, Do::Allow);
    assert_eq!(check("args.amount < 100", json!({ "amount": 500 })).error, None);
    for args in [json!({}), json!({ "amount": "5" }), json!({ "amount": null })] {
        let decision = check("args.amount < 100", args);
        assert_eq!((decision.action, decision.rule), (Do::Deny, Some(0)));
        assert!(decision.error.is_some());
    }
    assert!(check("args.amount", json!({ "amount": 5 })).error.is_some(), "neither true nor false");
    let many = |count: usize| json!({ "list": vec![1; count] });
    assert!(check("args.list.all(x, x == 1)", many(3_000)).error.is_some(), "too many values for a loop");
    assert_eq!(check("args.list.all(x, x == 1)", many(1_000)).error, None);
    let nested = "args.list.all(x, args.list.exists(y, x == y))";
    assert_eq!(check(nested, many(100)).error, None);
    assert!(check(nested, many(200)).error.is_some(), "too many values for a loop in a loop");
    let one_after_the_other = "args.list.all(x, x == 1) && args.list.exists(y, y == 1)";
    assert_eq!(check(one_after_the_other, many(1_000)).error, None);
}

/// The longest list of this value that a condition is applied to, and how long that takes.
fn slowest(when: &str, value: &Value) -> (usize, Duration) {
    let who: Who<'_, &str> = Who { name: "alice", parents: &[], roles: &[], class: "" };
    let condition = Condition::compile(when).unwrap();
    let args = |count: usize| json!({ "list": vec![value; count], "text": "x".repeat(count) });
    let is_too_large = |count: usize| condition.check_size(&who, &args(count)).is_err();
    let (mut most, mut step) = (1, 4_096);
    while step > 0 {
        if !is_too_large(most + step) {
            most += step;
        }
        step /= 2;
    }
    let args = args(most);
    let start = Instant::now();
    let result = condition.holds(&who, "s:x", &args);
    let took = start.elapsed();
    assert!(result.is_ok(), "{when}: {result:?}");
    (most, took)
}

#[test]
fn the_worst_arguments_of_a_condition_take_a_bounded_time() {
    for (when, value) in [
        ("args.list.all(x, args.list.all(y, x == y))", json!(1)),
        ("args.list.all(x, args.list.all(y, x == y))", json!("a text of thirty-two characters.")),
        ("args.list.all(x, args.list.all(y, y in args.list && !(2 in args.list)))", json!(1)),
        ("args.list.all(x, !args.text.contains('b'))", json!(1)),
        ("args.list.all(x, x.matches('^/srv/[a-z]{1,30}/\\\\w+$'))", json!("/srv/shared/file")),
        ("args.list.map(x, args.list).all(l, 2 in l || true)", json!(1)),
        ("args.list.map(x, args.text + args.text).all(t, size(t) > 0)", json!(1)),
    ] {
        let (most, took) = slowest(when, &value);
        // Unoptimized code takes about ten times as long.
        let limit = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
        assert!(took < limit, "{took:?} for {most} values: {when}");
    }
}

#[test]
fn conditions_are_checked_when_they_are_compiled() {
    let pattern_of_a_client = "args.a.matches(args.b)";
    for wrong in ["args.", "unknown == 1", "args.a.all(x, x.all(y, y.all(z, z)))", pattern_of_a_client] {
        assert!(Condition::compile(wrong).is_err(), "{wrong}");
    }
    assert!(Condition::compile(&"(".repeat(5_000)).is_err());
    assert!(Condition::compile(&"(".repeat(2_000)).is_err());
}

/// So many rules; the last one allows the call of the test. Of the others, every tenth has a condition in CEL and every
/// hundredth is about the very call and fails only by its arguments.
fn rules_before_the_matching_one(count: usize) -> Vec<Rule> {
    let tools = |pattern: String| Names { tools: vec![pattern], ..Names::default() };
    let mut rules: Vec<Rule> = (1..count)
        .map(|n| match n {
            _ if n % 100 == 0 => {
                let test = Test { equals: Some(json!(-1)), ..Test::default() };
                Rule {
                    names: tools("files:*".to_owned()),
                    args: vec![("/n".to_owned(), test)],
                    ..rule(Do::Deny)
                }
            }
            _ if n % 10 == 0 => {
                let when = Some(Condition::compile(&format!("args.n == {n}")).unwrap());
                Rule { names: tools(format!("server{n}:*")), when, ..rule(Do::Deny) }
            }
            _ => {
                let who = vec![format!("user{n}")];
                Rule { who, names: tools(format!("server{n}:*")), ..rule(Do::Deny) }
            }
        })
        .collect();
    let below = Test { below: Some("/data".to_owned()), ..Test::default() };
    let args = vec![("/path".to_owned(), below)];
    rules.push(Rule { who: vec!["role:ops".to_owned()], args, ..rule(Do::Allow) });
    rules
}

/// With `TOOLYARD_FIGURES`, which `cargo xtask bench --rules` sets for a release build, the difference in time counts.
#[expect(clippy::print_stderr, reason = "a figure for people")]
#[test]
fn a_call_with_a_thousand_rules_costs_less_than_ten_with_one() {
    let (one, many) = (
        Policy::new(rules_before_the_matching_one(1), Do::Deny),
        Policy::new(rules_before_the_matching_one(1_000), Do::Deny),
    );
    let who: Who<'_, &str> = Who { name: "alice", parents: &[], roles: &["ops"], class: "" };
    let tool = Target {
        kind: Kind::Tool,
        canonical: "files:read",
        annotations: Annotations::default(),
        is_trusted: false,
    };
    let args = json!({ "path": "/data/x", "n": 5 });
    assert_eq!(many.class_of(&who).verdict(&tool).decide(&who, tool.canonical, &args).rule, Some(999));
    // As a call does: it is looked up when it is dispatched and in both steps, and the last one decides.
    let time = |policy: &Policy| {
        let start = Instant::now();
        for _ in 0..200 {
            for _ in 0..2 {
                std::hint::black_box(policy.class_of(&who).verdict(&tool).settled());
            }
            let verdict = policy.class_of(&who).verdict(&tool);
            assert_eq!(verdict.decide(&who, tool.canonical, &args).action, Do::Allow);
        }
        start.elapsed() / 200
    };
    // The fastest of many short rounds, in turns, so that the load of the machine meets both.
    let (mut of_one, mut of_many) = (time(&one), time(&many));
    for _ in 0..200 {
        of_one = of_one.min(time(&one));
        of_many = of_many.min(time(&many));
    }
    assert!(of_many < of_one * 10, "{of_many:?} for a thousand rules, {of_one:?} for one");
    if std::env::var_os("TOOLYARD_FIGURES").is_some() {
        let more = of_many.saturating_sub(of_one);
        eprintln!("a call costs {of_one:?} with one rule and {of_many:?} with a thousand: {more:?} more");
        assert!(more <= Duration::from_micros(1), "a thousand rules cost {more:?} more per call than one");
    }
}
