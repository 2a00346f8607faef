//! The machine against a model: whatever steps are tried at whatever times, only the ones in the table are
//! made, the history lists them in order, and it stays bounded.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use toolyard_proto::Reason;

use super::history::MOST;
use super::{Invalid, Phase, State};

/// The allowed transitions, written out a second time by hand.
const TABLE: [(Phase, &[Phase]); 9] = [
    (Phase::Discovered, &[Phase::Connecting, Phase::Starting, Phase::Idle, Phase::Dead, Phase::Ended]),
    (Phase::Connecting, &[Phase::Active, Phase::Retrying, Phase::SignIn, Phase::Dead, Phase::Ended]),
    (Phase::Starting, &[Phase::Active, Phase::Retrying, Phase::SignIn, Phase::Dead, Phase::Ended]),
    (Phase::Active, &[Phase::Idle, Phase::Retrying, Phase::SignIn, Phase::Dead, Phase::Ended]),
    (Phase::Idle, &[Phase::Discovered, Phase::Ended]),
    (
        Phase::Retrying,
        &[Phase::Discovered, Phase::Connecting, Phase::Starting, Phase::SignIn, Phase::Dead, Phase::Ended],
    ),
    (Phase::SignIn, &[Phase::Discovered, Phase::Ended]),
    (Phase::Dead, &[Phase::Discovered, Phase::Ended]),
    (Phase::Ended, &[]),
];

fn allowed(from: Phase, to: Phase) -> bool {
    TABLE.iter().any(|(phase, next)| *phase == from && next.contains(&to))
}

/// The expected state of the machine, computed in the simplest way.
struct Model {
    phase: Phase,
    since: SystemTime,
    made: Vec<(Phase, Phase, SystemTime, Option<Reason>)>,
}

proptest! {
    #[test]
    fn only_the_steps_of_the_table_are_made_and_history_lists_them(
        steps in prop::collection::vec((0usize..9, 0u64..100_000, prop::option::of("[a-z]{1,8}")), 0..400),
    ) {
        let mut now = SystemTime::UNIX_EPOCH;
        let mut state = State::new(now);
        let mut model = Model { phase: Phase::Discovered, since: now, made: Vec::new() };
        for (to, pause, reason) in steps {
            let reason = reason.map(Reason::from);
            now += Duration::from_millis(pause);
            // The end is rare, or there would be little to test.
            let to = if to == 8 && pause % 50 != 0 { Phase::Connecting } else { Phase::ALL[to] };
            let outcome = state.enter(to, reason.clone(), now);
            if to == model.phase {
                prop_assert_eq!(outcome, Ok(()));
            } else if allowed(model.phase, to) {
                prop_assert_eq!(outcome, Ok(()));
                model.made.push((model.phase, to, now, reason));
                (model.phase, model.since) = (to, now);
            } else {
                prop_assert_eq!(outcome, Err(Invalid { from: model.phase, to }));
            }
            check(&state, &model)?;
        }
    }
}

fn check(state: &State, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!((state.phase, state.since), (model.phase, model.since));
    prop_assert_eq!(state.history.total(), u64::try_from(model.made.len()).unwrap());
    prop_assert!(state.history.changes().len() <= MOST);
    let kept = state.history.changes().rev();
    for (kept, (from, to, at, reason)) in kept.zip(model.made.iter().rev()) {
        prop_assert_eq!((kept.from, kept.to, kept.at, &kept.reason), (*from, *to, *at, reason));
    }
    for (from, to, count) in state.history.counts() {
        let made = model.made.iter().filter(|step| (step.0, step.1) == (from, to)).count();
        prop_assert_eq!(count, u64::try_from(made).unwrap());
    }
    Ok(())
}

#[test]
fn dead_upstreams_come_back_by_being_discovered_and_ended_ones_never() {
    let mut state = State::new(SystemTime::UNIX_EPOCH);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for phase in [Phase::Connecting, Phase::Retrying, Phase::Dead] {
        state.enter(phase, Some("gone".into()), now).unwrap();
    }
    assert_eq!(state.enter(Phase::Active, None, now), Err(Invalid { from: Phase::Dead, to: Phase::Active }));
    for phase in [Phase::Discovered, Phase::Connecting, Phase::Active] {
        state.enter(phase, None, now).unwrap();
    }
    assert_eq!((state.reason.as_ref(), state.failures, state.connected), (None, 0, Some(now)));
    state.enter(Phase::Ended, None, now).unwrap();
    for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Ended) {
        assert!(state.enter(phase, None, now).is_err(), "{phase}");
    }
}
