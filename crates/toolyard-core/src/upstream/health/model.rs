//! Compares the judgement of silence with a model that remembers everything.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{HealthChange, Sign, Vigil};
use crate::plan::Pings;

const SIGNS: [Sign; 4] = [Sign::Answered, Sign::Silent, Sign::SilentAndSuspect, Sign::Busy];

/// All signs so far, and nothing else.
struct Model {
    misses: usize,
    answers: bool,
    signs: Vec<Sign>,
}

impl Model {
    fn is_miss(sign: Sign) -> bool {
        matches!(sign, Sign::Silent | Sign::SilentAndSuspect)
    }

    /// The misses since the last answer; silence after a suspicion counts for all that are needed.
    fn misses(&self) -> usize {
        let since = self.signs.iter().rposition(|sign| *sign == Sign::Answered).map_or(0, |at| at + 1);
        let signs: Vec<&Sign> = self.signs[since..].iter().filter(|sign| Self::is_miss(**sign)).collect();
        let mut misses = 0;
        let mut away = false;
        for sign in signs {
            misses += 1;
            if *sign == Sign::SilentAndSuspect && !away {
                misses = misses.max(self.misses);
                away = true;
            }
            away |= misses >= self.misses && self.has_answered();
        }
        misses
    }

    fn has_answered(&self) -> bool {
        self.answers || self.signs.contains(&Sign::Answered)
    }

    fn is_away(&self) -> bool {
        let since = self.signs.iter().rposition(|sign| *sign == Sign::Answered).map_or(0, |at| at + 1);
        let is_suspect = self.signs[since..].contains(&Sign::SilentAndSuspect);
        is_suspect || (self.has_answered() && self.misses() >= self.misses)
    }
}

proptest! {
    #[test]
    fn away_at_the_last_miss_back_with_an_answer_lost_after_twice_as_many(
        signs in prop::collection::vec(0usize..4, 0..60),
        misses in 1u32..5,
        regular: bool,
        answers: bool,
    ) {
        let rules = Pings { misses, ..Pings::default() };
        let mut now = Instant::now();
        let mut vigil = Vigil::new(rules, regular, answers, now);
        let mut model = Model { misses: usize::try_from(misses).unwrap(), answers, signs: Vec::new() };
        for sign in signs.into_iter().map(|at| SIGNS[at]) {
            now += Duration::from_secs(1);
            let was_away = model.is_away();
            model.signs.push(sign);
            let is_lost = was_away && Model::is_miss(sign) && model.misses() >= 2 * model.misses;
            let expected = match (was_away, model.is_away()) {
                _ if is_lost => HealthChange::Lost,
                (false, true) => HealthChange::Away,
                (true, false) => HealthChange::Back,
                _ => HealthChange::Same,
            };
            prop_assert_eq!(vigil.take(sign, now), expected);
            if is_lost {
                return Ok(());
            }
            prop_assert_eq!(vigil.is_away(), model.is_away());
            if regular || model.is_away() {
                prop_assert_eq!(vigil.due(), Some(now + rules.every), "it is asked again");
            }
        }
    }
}
