//! Chooses the token for the next connection: each token is accepted once. Pure: the time is an argument.

use toolyard_proto::token::Rules;

#[derive(Debug)]
pub(crate) struct Tokens {
    rules: Option<Rules>,
    /// The token in the environment.
    given: Option<String>,
    /// The client that we can make tokens for: our own, or the one that the given token names. `None` if the given
    /// token was not made from our secret.
    client: Option<String>,
    last: u64,
    presented: Option<Presented>,
    /// How many tokens were refused since one was accepted.
    refused: usize,
}

/// The token of the last connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presented {
    Given,
    Minted,
    Nothing,
}

/// How often each secret is tried: several programs of one client may make the same token in the same second.
const TRIES: usize = 3;

impl Tokens {
    /// `own` is the name of our client unless a given token names another.
    pub(crate) fn new(own: String, given: Option<String>, rules: Option<Rules>, now: u64) -> Self {
        let client = given.is_none().then_some(own);
        let mut tokens = Self { rules: None, given, client, last: 0, presented: None, refused: 0 };
        tokens.renew(rules, now);
        tokens
    }

    pub(crate) fn presented(&self) -> Option<Presented> {
        self.presented
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.secrets.is_empty())
    }

    pub(crate) fn renew(&mut self, rules: Option<Rules>, now: u64) {
        if let (None, Some(given), Some(rules)) = (&self.client, &self.given, &rules)
            && let Ok((client, made)) = rules.verify(given, now)
        {
            (self.client, self.last) = (Some(client), made);
        }
        self.rules = rules;
    }

    /// The last token was accepted.
    pub(crate) fn taken(&mut self) {
        self.refused = 0;
    }

    /// The last token was refused; returns whether there is another to try. While a secret is being replaced, the
    /// gateway may still use the old one; or it requires none.
    pub(crate) fn refused(&mut self) -> bool {
        let has_more = match self.presented {
            Some(Presented::Minted) => true,
            Some(Presented::Given) => self.client.is_some() && self.rules.is_some(),
            Some(Presented::Nothing) | None => false,
        };
        self.refused += 1;
        has_more
    }

    /// `random` spreads the tokens of several programs of one client.
    pub(crate) fn next(&mut self, now: u64, random: u64) -> Option<String> {
        let is_first = self.presented.is_none();
        let (presented, token) = match (&self.given, self.made(now, random)) {
            (Some(given), made) if is_first || made.is_none() && self.client.is_none() => {
                (Presented::Given, Some(given.clone()))
            }
            (_, Some((made, token))) => {
                self.last = made;
                (Presented::Minted, Some(token))
            }
            (_, None) => (Presented::Nothing, None),
        };
        self.presented = Some(presented);
        token
    }

    /// A token of ours and its time; `None` if all have been refused.
    fn made(&self, now: u64, random: u64) -> Option<(u64, String)> {
        let (rules, client) = (self.rules.as_ref()?, self.client.as_ref()?);
        let secret = rules.secrets.iter().cycle().take(rules.secrets.len() * TRIES).nth(self.refused)?;
        let next = now.max(self.last + 1);
        let is_good = self.refused == 0 && next <= now + rules.skew;
        let made = if is_good { next } else { now.saturating_sub(random % (rules.window / 2).max(1)) };
        Some((made, secret.mint(client, made)))
    }
}

#[cfg(test)]
mod tests {
    use toolyard_proto::token::{Checker, Secret};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn secret(letter: char) -> Secret {
        let text = format!("{}=", String::from(letter).repeat(43));
        Secret::parse(&text).unwrap()
    }

    fn rules(letter: char) -> Rules {
        Rules { secrets: vec![secret(letter)], window: 1800, skew: 120 }
    }

    /// The clients that three connections within a second count as, at a gateway with secret `A`.
    fn check(given: Option<String>, rules_here: Option<Rules>, expected: [&str; 3]) {
        let mut tokens = Tokens::new("own".to_owned(), given, rules_here, NOW);
        let mut checker = Checker::new(rules('A'));
        let got = [(); 3].map(|()| match tokens.next(NOW, 7) {
            Some(token) => checker.check(&token, NOW).map_or_else(|bad| bad.to_string(), |used| used.client),
            None => "no client".to_owned(),
        });
        assert_eq!(got, expected);
    }

    #[test]
    fn each_connection_brings_a_token_that_was_not_used_before() {
        let used = "the token was used before: make a new one for each connection";
        let (expired, other) = ("the token has expired", "the token was made with another secret");
        let form = "the token does not have the form ClientId:UnixTimestamp:Signature";
        let given = |letter, made| Some(secret(letter).mint("ann", made));
        check(None, Some(rules('A')), ["own"; 3]);
        check(None, None, ["no client"; 3]);
        check(given('A', NOW), Some(rules('A')), ["ann"; 3]);
        check(given('A', NOW + 60), Some(rules('A')), ["ann"; 3]);
        // An invalid token is not repaired.
        check(given('A', NOW - 4000), Some(rules('A')), [expired; 3]);
        check(given('E', NOW), Some(rules('A')), [other; 3]);
        check(Some("bearer".to_owned()), Some(rules('A')), [form; 3]);
        // Without the secret there is only the given token.
        check(given('A', NOW), None, ["ann", used, used]);
        check(None, Some(rules('E')), [other; 3]);
    }

    #[test]
    fn a_secret_that_was_replaced_is_used_from_then_on() {
        let mut tokens = Tokens::new("own".to_owned(), None, Some(rules('E')), NOW);
        tokens.next(NOW, 7);
        tokens.renew(Some(rules('A')), NOW);
        assert_eq!(tokens.next(NOW, 7), Some(secret('A').mint("own", NOW + 1)));
        assert_eq!(tokens.presented(), Some(Presented::Minted));
    }

    /// The client that a gateway accepts, and after how many refusals.
    fn met(tokens: &mut Tokens, checker: &mut Checker, now: u64) -> (String, usize) {
        for refusals in 0.. {
            let token = tokens.next(now, 11 * refusals as u64 + 5);
            match token.map(|token| checker.check(&token, now)) {
                None => return ("no client".to_owned(), refusals),
                Some(Ok(used)) => {
                    tokens.taken();
                    return (used.client, refusals);
                }
                Some(Err(bad)) if !tokens.refused() => return (bad.to_string(), refusals),
                Some(Err(_)) => {}
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn two_programs_of_one_client_that_reconnect_in_the_same_second_are_both_accepted() {
        let mut checker = Checker::new(rules('A'));
        let given = |made| Some(secret('A').mint("ann", made));
        let programs = [given(NOW - 9), given(NOW - 8)];
        let mut programs = programs.map(|given| Tokens::new("own".to_owned(), given, Some(rules('A')), NOW));
        for now in [NOW, NOW + 60] {
            let met = programs.each_mut().map(|tokens| met(tokens, &mut checker, now).0);
            assert_eq!(met, ["ann", "ann"], "at {now}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_locks_no_client_out() {
        let mut checker = Checker::new(rules('A'));
        let mut tokens = Tokens::new("own".to_owned(), None, Some(rules('A')), NOW);
        for now in [NOW, NOW - 600, NOW - 600, NOW] {
            assert_eq!(met(&mut tokens, &mut checker, now).0, "own", "at {now}");
        }
    }

    #[test]
    fn while_a_secret_is_being_replaced_both_are_tried() {
        let both = Rules { secrets: vec![secret('E'), secret('A')], ..rules('A') };
        let mut tokens = Tokens::new("own".to_owned(), None, Some(both), NOW);
        assert_eq!(met(&mut tokens, &mut Checker::new(rules('A')), NOW), ("own".to_owned(), 1));
        // If none of our secrets is accepted, the last attempt is without a token.
        let mut tokens = Tokens::new("own".to_owned(), None, Some(rules('E')), NOW);
        assert_eq!(met(&mut tokens, &mut Checker::new(rules('A')), NOW), ("no client".to_owned(), TRIES));
        assert!(!tokens.refused());
    }
}
