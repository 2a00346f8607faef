//! Rules and approvals act on what is really sent, whatever hooks, steps and validation do with the arguments: random
//! rules and changes against a naive model.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolyard_core::pipeline::{Call, ExtraSteps, Next, Step};
use toolyard_core::{Gateway, ToolRule, ToolSettings, Validate};
use toolyard_hooks::{Event, Hook, HookKind, HookPlan, OwnHook, Point, Verdict};
use toolyard_model::{Answer, BoxFuture};
use toolyard_policy::rules::{Approval, By, Condition, Do, Policy, Rule, Test};

use super::{NEW, get, tools};
use crate::support::{Client, Double, raw, start};

/// How often a client makes a call that is asked about.
const MOST_ROUNDS: i64 = 4;

/// What a hook or a step can do to the arguments.
const CHANGES: [fn(&mut Value, i64); 4] = [
    |args, by| args["n"] = json!(args["n"].as_i64().unwrap_or(0) + by),
    |args, to| args["n"] = json!(to),
    |args, _| {
        args.as_object_mut().unwrap().remove("n");
    },
    |args, to| *args = json!({ "n": to, "path": "/srv/x" }),
];

/// One change of the arguments, which may be another one each time that a client makes the call.
#[derive(Clone, Debug)]
struct Change {
    kind: usize,
    by: i64,
    drift: i64,
    round: Arc<AtomicI64>,
}

impl Change {
    fn apply(&self, args: &mut Value) {
        CHANGES[self.kind](args, self.by + self.drift * self.round.load(Ordering::SeqCst));
    }
}

impl Hook for Change {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let mut arguments = event.data["arguments"].clone();
        self.apply(&mut arguments);
        Box::pin(async move { Ok(Verdict::change("arguments", arguments)) })
    }
}

/// A step of an embedding program.
impl Step for Change {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let mut arguments: Value = call.params.member("arguments").unwrap().read().unwrap();
        self.apply(&mut arguments);
        call.params = call.params.with("arguments", &raw(arguments)).into();
        next.run(call)
    }
}

/// A rule on the argument `n`, and what it means.
#[derive(Clone, Copy, Debug)]
enum On {
    AtMost(i64),
    Equal(i64),
    Absent,
    Below(i64),
}

impl On {
    fn rule(self, action: Do, by: By) -> Rule {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let test = match self {
            Self::AtMost(limit) => Some(Test { max: Some(limit as f64), ..Test::default() }),
            Self::Equal(value) => Some(Test { equals: Some(json!(value)), ..Test::default() }),
            Self::Absent => Some(Test { exists: Some(false), ..Test::default() }),
            Self::Below(_) => None,
        };
        let when = match self {
            Self::Below(limit) => {
                Some(Condition::compile(&format!("has(args.n) && args.n < {limit}")).unwrap())
            }
            _ => None,
        };
        let args = test.into_iter().map(|test| ("/n".to_owned(), test)).collect();
        let approval = Approval { by, wait: Duration::ZERO, ..Approval::default() };
        Rule { args, when, approval, ..tools(&["a:t"], action) }
    }

    fn holds(self, args: &Value) -> bool {
        let n = args["n"].as_i64();
        match self {
            Self::AtMost(limit) => n.is_some_and(|n| n <= limit),
            Self::Equal(value) => n == Some(value),
            Self::Absent => n.is_none(),
            Self::Below(limit) => n.is_some_and(|n| n < limit),
        }
    }
}

fn number() -> std::ops::Range<i64> {
    -5..15
}

fn any_rules() -> impl Strategy<Value = Vec<(On, Do)>> {
    let on = prop_oneof![
        number().prop_map(On::AtMost),
        number().prop_map(On::Equal),
        Just(On::Absent),
        number().prop_map(On::Below),
    ];
    let action = prop::sample::select(vec![Do::Allow, Do::Deny, Do::Approve]);
    prop::collection::vec((on, action), 1..4)
}

/// Kind, amount and drift of changes.
fn any_changes() -> impl Strategy<Value = Vec<(usize, i64, i64)>> {
    prop::collection::vec((0..CHANGES.len(), number(), prop_oneof![Just(0), Just(0), 0..3_i64]), 0..3)
}

/// A gateway and what a naive reader of its config expects of it.
struct World {
    rules: Vec<(On, Do)>,
    default: Do,
    by: By,
    changes: Vec<Change>,
    /// What validation allows at most.
    most: Option<i64>,
    round: Arc<AtomicI64>,
    double: Arc<Double>,
    gateway: Gateway,
}

impl World {
    fn new(
        (rules, default, by): (Vec<(On, Do)>, Do, By),
        [hooks, steps]: [Vec<(usize, i64, i64)>; 2],
        most: Option<i64>,
    ) -> Self {
        let (round, double) = (Arc::<AtomicI64>::default(), Double::new(NEW, &["t"]));
        let change = |(kind, by, drift)| Change { kind, by, drift, round: round.clone() };
        let hooks: Vec<Change> = hooks.into_iter().map(change).collect();
        let steps: Vec<Change> = steps.into_iter().map(change).collect();
        if let Some(most) = most {
            let n = json!({ "type": "integer", "maximum": most });
            double.tools.lock()[0]["inputSchema"] =
                json!({ "type": "object", "properties": { "n": n }, "required": ["n"] });
        }
        let written = rules.iter().map(|(on, action)| on.rule(*action, by)).collect();
        let gateway = start(&[("a", &double)], |plan| {
            plan.calls.rules = Some(Arc::new(Policy::new(written, default)));
            plan.calls.hooks = hooks.iter().enumerate().map(|(at, hook)| planned(at, hook)).collect();
            plan.steps =
                ExtraSteps(steps.iter().map(|step| Arc::new(step.clone()) as Arc<dyn Step>).collect());
            let validate = Some(if most.is_some() { Validate::Input } else { Validate::Off });
            let settings = ToolSettings { validate, ..ToolSettings::default() };
            plan.calls.tools = vec![ToolRule { pattern: "*".into(), settings, ..ToolRule::default() }];
        });
        Self { rules, default, by, changes: [hooks, steps].concat(), most, round, double, gateway }
    }

    /// The arguments that would be sent, and whether they are.
    fn expected(&self, n: i64) -> (Value, Do) {
        let mut args = json!({ "n": n });
        self.changes.iter().for_each(|change| change.apply(&mut args));
        let is_valid = self.most.is_none_or(|most| args["n"].as_i64().is_some_and(|n| n <= most));
        let rule = self.rules.iter().find(|(on, _)| on.holds(&args));
        let action = rule.map_or(self.default, |(_, action)| *action);
        (args, if is_valid { action } else { Do::Deny })
    }

    /// All arguments that the upstream was called with.
    fn sent(&self) -> Vec<Value> {
        let seen = self.double.seen.lock();
        seen.iter().map(|(_, params)| params.read::<Value>().unwrap()["arguments"].clone()).collect()
    }

    /// Makes a call, approves what is asked about and calls again, until it is sent or refused.
    async fn check(&self, client: &Client, n: i64, granted: &mut Vec<Value>) -> Result<(), TestCaseError> {
        let mut params = json!({ "name": "a__t", "arguments": { "n": n } });
        for round in 0..MOST_ROUNDS {
            self.round.store(round, Ordering::SeqCst);
            let before = self.sent();
            let answer = client.ask("tools/call", params.clone()).await.unwrap_or_default();
            let (expected, action) = self.expected(n);
            let approved = granted.iter().position(|args| *args == expected);
            let is_sent = action == Do::Allow || (action == Do::Approve && approved.is_some());
            let now = self.sent();
            prop_assert_eq!(now.len() - before.len(), usize::from(is_sent), "{} {}", expected, answer);
            if is_sent {
                prop_assert_eq!(now.last(), Some(&expected));
            }
            if let Some(approved) = approved.filter(|_| action == Do::Approve) {
                granted.remove(approved);
            }
            if is_sent || action == Do::Deny {
                return Ok(());
            }
            let shown = self.approve(&answer, &mut params).await;
            prop_assert_eq!(&shown, &expected, "the user sees what would be sent");
            if self.by == By::Client {
                granted.clear();
            }
            granted.push(shown);
        }
        Ok(())
    }

    /// Approves what a call asks about: the arguments that were shown.
    async fn approve(&self, answer: &Value, params: &mut Value) -> Value {
        if self.by == By::Client {
            let message = answer["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
            let (_, shown) = message.split_once("with these arguments: ").unwrap();
            params["requestState"] = answer["requestState"].clone();
            let accepted = json!({ "action": "accept", "content": { "decision": "once" } });
            params["inputResponses"] = json!({ "approval": accepted });
            return serde_json::from_str(shown).unwrap();
        }
        let waiting = get(&self.gateway, "/approvals", "", true).await;
        let call = &waiting["calls"][0];
        crate::approvals::decide(&self.gateway, "/approvals/approve", &json!({ "id": call["id"] })).await;
        call["arguments"].clone()
    }
}

fn planned(at: usize, hook: &Change) -> HookPlan {
    HookPlan::new(&format!("h{at}"), Point::PreToolCall, HookKind::Own(OwnHook(Arc::new(hook.clone()))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rules_and_approvals_act_on_what_is_really_sent(
        rules in any_rules(),
        default in prop::sample::select(vec![Do::Allow, Do::Deny]),
        by in prop::sample::select(vec![By::Client, By::Operator]),
        hooks in any_changes(),
        steps in any_changes(),
        most in prop::option::of(5..15_i64),
        calls in prop::collection::vec(number(), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new((rules, default, by), [hooks, steps], most);
            let mut client = Client::new(&world.gateway, NEW, "");
            client.declare(json!({ "elicitation": {} }));
            client.tools().await;
            let mut granted = Vec::new();
            for n in calls {
                world.check(&client, n, &mut granted).await?;
                if by == By::Client {
                    granted.clear();
                }
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
