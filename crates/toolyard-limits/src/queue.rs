//! A bounded queue that is fair by client: clients take turns, however many calls each has waiting.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Identifies one waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueTicket(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct FairQueue<K> {
    waiting: HashMap<K, VecDeque<QueueTicket>>,
    /// Clients with waiting calls, in the order of their turns.
    turns: VecDeque<K>,
    len: usize,
}

impl<K> Default for FairQueue<K> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, client: K, ticket: QueueTicket) {
        let calls = self.waiting.entry(client.clone()).or_default();
        if calls.is_empty() {
            self.turns.push_back(client);
        }
        calls.push_back(ticket);
        self.len += 1;
    }

    /// The next call, in turn.
    pub(crate) fn pop(&mut self) -> Option<QueueTicket> {
        let client = self.turns.pop_front()?;
        let calls = self.waiting.get_mut(&client)?;
        let ticket = calls.pop_front();
        if calls.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.len -= usize::from(ticket.is_some());
        ticket
    }

    /// Removes a call that no longer waits; returns whether it was waiting.
    pub(crate) fn remove(&mut self, ticket: QueueTicket) -> bool {
        let found = self.waiting.iter().find_map(|(client, calls)| {
            calls.iter().position(|waiting| *waiting == ticket).map(|at| (client.clone(), at))
        });
        let Some((client, at)) = found else { return false };
        self.remove_at(&client, at);
        true
    }

    /// Makes room for a call of `client` in a full queue: the newest call of the client with the most waiting calls
    /// goes, if that client has at least two more than `client`. So a flood of one client never shuts others out.
    pub(crate) fn displace_for(&mut self, client: &K) -> Option<QueueTicket> {
        let own = self.waiting.get(client).map_or(0, VecDeque::len);
        let (greediest, most) = self
            .waiting
            .iter()
            .map(|(client, calls)| (client.clone(), calls.len()))
            .max_by_key(|(_, n)| *n)?;
        (most >= own + 2).then(|| self.remove_at(&greediest, most - 1)).flatten()
    }

    fn remove_at(&mut self, client: &K, at: usize) -> Option<QueueTicket> {
        let calls = self.waiting.get_mut(client)?;
        let removed = calls.remove(at)?;
        self.len -= 1;
        if calls.is_empty() {
            self.waiting.remove(client);
            self.turns.retain(|waiting| waiting != client);
        }
        Some(removed)
    }

    /// How many waiting calls come before this one.
    pub(crate) fn place(&self, ticket: QueueTicket) -> Option<usize> {
        let (client, depth) = self.waiting.iter().find_map(|(client, calls)| {
            calls.iter().position(|waiting| *waiting == ticket).map(|depth| (client, depth))
        })?;
        let turn = self.turns.iter().position(|waiting| waiting == client)?;
        let before = self.turns.iter().enumerate().filter(|(_, other)| *other != client);
        let before = before.map(|(at, other)| self.waiting[other].len().min(depth + usize::from(at < turn)));
        Some(depth + before.sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(calls: &[(&'static str, u64)]) -> FairQueue<&'static str> {
        let mut queue = FairQueue::default();
        for (client, ticket) in calls {
            queue.push(*client, QueueTicket(*ticket));
        }
        queue
    }

    #[test]
    fn clients_take_turns() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|ticket| ticket.0).collect();
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_full_queue_makes_room_at_the_expense_of_the_greediest_client() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 4)]);
        assert_eq!(queue.displace_for(&"c"), Some(QueueTicket(3)));
        assert_eq!(queue.displace_for(&"c"), Some(QueueTicket(2)));
        assert_eq!(queue.displace_for(&"c"), None);
        assert_eq!(queue.displace_for(&"a"), None);
    }

    proptest! {
        #[test]
        fn a_place_is_the_number_of_calls_served_before(calls in prop::collection::vec(0_u8..5, 1..40)) {
            let mut queue = FairQueue::default();
            for (ticket, client) in (0_u64..).zip(&calls) {
                queue.push(*client, QueueTicket(ticket));
            }
            let places: Vec<usize> = (0..calls.len() as u64).map(|n| queue.place(QueueTicket(n)).unwrap()).collect();
            for served in 0..calls.len() {
                let ticket = queue.pop().unwrap();
                prop_assert_eq!(places[usize::try_from(ticket.0).unwrap()], served);
            }
        }

        #[test]
        fn removed_calls_are_not_served(calls in prop::collection::vec((0_u8..4, any::<bool>()), 1..40)) {
            let mut queue = FairQueue::default();
            for (ticket, (client, _)) in (0_u64..).zip(&calls) {
                queue.push(*client, QueueTicket(ticket));
            }
            for (ticket, (_, leaves)) in (0_u64..).zip(&calls) {
                if *leaves {
                    prop_assert!(queue.remove(QueueTicket(ticket)));
                    prop_assert!(!queue.remove(QueueTicket(ticket)));
                }
            }
            let mut served: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|ticket| ticket.0).collect();
            served.sort_unstable();
            let expected: Vec<u64> =
                (0_u64..).zip(&calls).filter(|(_, (_, leaves))| !leaves).map(|(ticket, _)| ticket).collect();
            prop_assert_eq!(served, expected);
        }
    }
}
