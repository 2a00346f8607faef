//! Which token the next connection brings: a token is good for one. Pure: the time is an argument.

use toolyard_proto::token::Rules;

#[derive(Debug)]
pub(super) struct Tokens {
    rules: Option<Rules>,
    /// What the environment gave us.
    given: Option<String>,
    /// Whose tokens we can make: our own, or those of the client that the given one names. Nobody's where that is
    /// no token made from our secret.
    client: Option<String>,
    last: u64,
    presented: Option<Presented>,
}

/// What the last connection brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presented {
    Given,
    Minted,
    Nothing,
}

impl Tokens {
    /// `own` is the client that we are if nobody says otherwise.
    pub(super) fn new(own: String, given: Option<String>, rules: Option<Rules>, now: u64) -> Self {
        let (client, last) = match (&given, &rules) {
            (None, _) => (Some(own), 0),
            (Some(given), Some(rules)) => {
                rules.verify(given, now).map_or((None, 0), |(client, made)| (Some(client), made))
            }
            (Some(_), None) => (None, 0),
        };
        Self { rules, given, client, last, presented: None }
    }

    pub(super) fn presented(&self) -> Option<Presented> {
        self.presented
    }

    pub(super) fn renew(&mut self, rules: Option<Rules>) {
        self.rules = rules;
    }

    pub(super) fn next(&mut self, now: u64) -> Option<String> {
        let secret = self.rules.as_ref().and_then(|rules| rules.secrets.first());
        let is_first = self.presented.is_none();
        let (presented, token) = match (&self.given, secret.zip(self.client.as_ref())) {
            (Some(given), made) if is_first || made.is_none() => (Presented::Given, Some(given.clone())),
            (_, Some((secret, client))) => {
                self.last = now.max(self.last + 1);
                (Presented::Minted, Some(secret.mint(client, self.last)))
            }
            (_, None) => (Presented::Nothing, None),
        };
        self.presented = Some(presented);
        token
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

    /// Who three connections within a second count as, at a gateway with secret `A`.
    fn check(given: Option<String>, rules_here: Option<Rules>, expected: [&str; 3]) {
        let mut tokens = Tokens::new("own".to_owned(), given, rules_here, NOW);
        let mut checker = Checker::new(rules('A'));
        let got = [(); 3].map(|()| match tokens.next(NOW) {
            Some(token) => checker.check(&token, NOW).unwrap_or_else(|bad| bad.to_string()),
            None => "nobody".to_owned(),
        });
        assert_eq!(got, expected);
    }

    #[test]
    fn each_connection_brings_a_token_that_was_not_used_before() {
        let used = "the token was used before: make a new one for each connection";
        let (expired, other) = ("the token has expired", "the token was made with another secret");
        let form = "the token has not the form ClientId:UnixTimestamp:Signature";
        let given = |letter, made| Some(secret(letter).mint("ann", made));
        check(None, Some(rules('A')), ["own"; 3]);
        check(None, None, ["nobody"; 3]);
        check(given('A', NOW), Some(rules('A')), ["ann"; 3]);
        check(given('A', NOW + 60), Some(rules('A')), ["ann"; 3]);
        // What is not good is not made good.
        check(given('A', NOW - 4000), Some(rules('A')), [expired; 3]);
        check(given('E', NOW), Some(rules('A')), [other; 3]);
        check(Some("bearer".to_owned()), Some(rules('A')), [form; 3]);
        // Without the secret there is only the one.
        check(given('A', NOW), None, ["ann", used, used]);
        check(None, Some(rules('E')), [other; 3]);
    }

    #[test]
    fn a_secret_that_was_replaced_is_used_from_then_on() {
        let mut tokens = Tokens::new("own".to_owned(), None, Some(rules('E')), NOW);
        tokens.next(NOW);
        tokens.renew(Some(rules('A')));
        assert_eq!(tokens.next(NOW), Some(secret('A').mint("own", NOW + 1)));
        assert_eq!(tokens.presented(), Some(Presented::Minted));
    }
}
