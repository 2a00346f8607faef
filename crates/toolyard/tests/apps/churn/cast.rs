//! The apps and instances, each a process, with all processes that ever had their names.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use super::Chance;
use crate::support::{Agent, Mortal, Yard};

const APPS: usize = 20;
const INSTANCES: usize = 10;
/// The longest that an app or instance stays dead.
const DEAD: u64 = 1500;

pub(super) struct Cast {
    pub(super) names: Vec<String>,
    roles: Vec<Mutex<Role>>,
    deaths: AtomicUsize,
}

struct Role {
    is_app: bool,
    living: Option<Mortal>,
    /// When it is started again.
    back_at: Instant,
    /// The processes that ever had the name.
    pids: HashSet<String>,
}

impl Role {
    fn start(&mut self, yard: &Yard, name: &str) -> Option<Mortal> {
        let start = if self.is_app { Mortal::app } else { Mortal::instance };
        let born = start(yard, name);
        self.pids.insert(born.pid().to_string());
        self.living.replace(born)
    }
}

impl Cast {
    pub(super) fn start(yard: &Yard) -> Self {
        let names = (0..APPS).map(|n| format!("App{n}")).chain((0..INSTANCES).map(|n| format!("Inst{n}")));
        let names: Vec<String> = names.collect();
        let role = |at: usize| Role {
            is_app: at < APPS,
            living: None,
            back_at: Instant::now(),
            pids: HashSet::new(),
        };
        let roles = (0..names.len()).map(|at| Mutex::new(role(at))).collect();
        let cast = Self { names, roles, deaths: AtomicUsize::new(0) };
        cast.all_are_alive(yard);
        cast
    }

    pub(super) fn deaths(&self) -> usize {
        self.deaths.load(Ordering::SeqCst)
    }

    /// Kills an app or instance, or replaces it by another of the same name; restarts those that were dead long enough.
    pub(super) fn something_happens(&self, yard: &Yard, chance: &mut Chance) {
        let at = usize::try_from(chance.below(self.names.len() as u64)).unwrap();
        let mut role = self.roles[at].lock();
        let replaced = if chance.below(3) == 0 { role.start(yard, &self.names[at]) } else { None };
        let killed = replaced.or_else(|| role.living.take_if(|_| chance.below(2) == 0));
        if role.living.is_none() {
            role.back_at = Instant::now() + Duration::from_millis(chance.below(DEAD));
        }
        drop(role);
        self.deaths.fetch_add(usize::from(killed.is_some()), Ordering::SeqCst);
        drop(killed);
        for (role, name) in self.roles.iter().zip(&self.names) {
            let mut role = role.lock();
            if role.living.is_none() && role.back_at <= Instant::now() {
                role.start(yard, name);
            }
        }
    }

    pub(super) fn all_are_alive(&self, yard: &Yard) {
        for (role, name) in self.roles.iter().zip(&self.names) {
            let mut role = role.lock();
            if role.living.is_none() {
                role.start(yard, name);
            }
        }
    }

    /// Whether `pid` has ever been the process of that name.
    pub(super) fn has_been(&self, name: &str, pid: &str) -> bool {
        let at = self.names.iter().position(|other| other == name).unwrap();
        self.roles[at].lock().pids.contains(pid)
    }

    /// Whether the catalog has exactly what these offer, and each name leads to the process that has it now.
    pub(super) fn is_complete(&self, agent: &mut Agent) -> Option<()> {
        let mut expected: Vec<String> =
            self.names.iter().flat_map(|name| [format!("{name}__picture"), format!("{name}__who")]).collect();
        expected.sort();
        if agent.tools() != expected {
            std::thread::sleep(Duration::from_millis(100));
            return None;
        }
        let is_right = |name: &String, role: &Mutex<Role>| {
            let pid = role.lock().living.as_ref().map(Mortal::pid)?;
            let id = agent.send_call(&format!("{name}__who"), &json!({ "word": "here" }));
            let answer = agent.answer(id);
            (answer["result"]["content"][0]["text"] == format!("{name} {pid} here")).then_some(())
        };
        let mut is_right = is_right;
        self.names.iter().zip(&self.roles).try_for_each(|(name, role)| is_right(name, role))
    }
}
