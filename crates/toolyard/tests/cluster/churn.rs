//! Apps, instances and nodes that are killed and started again at random, while clients call through all nodes: every
//! request has one answer, unless the node that it was sent to was killed meanwhile; no call is carried out twice, and a
//! program has one owner at any time.
//!
//! `TOOLYARD_CHURN_SECONDS=120` makes it longer, `TOOLYARD_CHURN_SEED` repeats a run as far as chance allows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use super::apps::Mortal;
use super::attempt::attempt;
use super::nats::free_port;
use super::tenures::{check_acts, check_tenures, now, tenures};
use super::world::{Setup, World, eventually};

const NODES: [&str; 3] = ["a", "b", "c"];
const CALLERS: u64 = 4;
/// The churn goes on until so many nodes were killed.
const FEWEST_KILLS: usize = 3;

/// Numbers without a pattern, the same for the same seed.
struct Chance(u64);

impl Chance {
    /// Another one for each of its users.
    fn new(seed: u64, user: u64) -> Self {
        Self((seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// An app or an instance, with every process that ever had its name.
struct Role {
    name: String,
    node: usize,
    is_app: bool,
    living: Option<Mortal>,
    pids: BTreeSet<u32>,
}

/// What callers and chaos share.
struct Stage {
    ports: [u16; 3],
    roles: Mutex<Vec<Role>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

/// From just before a node was killed until it was there again, in seconds since 1970.
#[derive(Debug)]
struct Absence {
    node: &'static str,
    from: f64,
    until: f64,
}

/// A call without an answer: where it was sent, when, and when its end was seen.
#[derive(Debug)]
struct Unanswered {
    node: &'static str,
    sent: f64,
    ended: f64,
}

impl Unanswered {
    fn is_due_to(&self, absence: &Absence) -> bool {
        self.node == absence.node && self.sent <= absence.until && self.ended >= absence.from
    }
}

#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    refused: usize,
    unanswered: Vec<Unanswered>,
    /// The numbers that were answered as carried out.
    added: BTreeSet<u64>,
}

#[test]
fn churn_with_killed_nodes_leaves_one_answer_per_call_and_one_owner_per_id() {
    churn(World::new(), "", from_env("TOOLYARD_CHURN_SECONDS").unwrap_or(12));
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Nodes with more keys of `[cluster]`, over NATS servers of which one at a time may be away if there are three.
pub(crate) fn churn(mut world: World, cluster: &'static str, seconds: u64) {
    let app_ports = [free_port(), free_port(), free_port()];
    let ports = [free_port(), free_port(), free_port()];
    let setup = |at: usize| Setup {
        upstreams: &["both"],
        apps: Some(app_ports[at]),
        port: ports[at],
        cluster,
        ..Setup::default()
    };
    for (at, node) in NODES.into_iter().enumerate() {
        world.start_with(node, setup(at));
    }
    let role = |at: usize| {
        let name = if at < 6 { format!("App{at}") } else { format!("Inst{at}") };
        Role { name, node: at % 3, is_app: at < 6, living: None, pids: BTreeSet::new() }
    };
    let roles = Mutex::new((0..9).map(role).collect());
    let stage = Arc::new(Stage { ports, roles, next: AtomicU64::new(1), is_over: AtomicBool::new(false) });
    stage.all_live(&world, app_ports);
    stage.wait_until_complete(&world);
    let seed = from_env("TOOLYARD_CHURN_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("churn for {seconds} s, TOOLYARD_CHURN_SEED={seed}");
    let callers: Vec<_> = (1..=CALLERS).map(|caller| stage.caller(Chance::new(seed, caller))).collect();
    let (mut chance, mut absences) = (Chance::new(seed, 0), Vec::new());
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until || absences.len() < FEWEST_KILLS {
        std::thread::sleep(Duration::from_millis(chance.below(500)));
        stage.something_happens(&world, app_ports, &mut chance);
        if chance.below(8) == 0 {
            let at = usize::try_from(chance.below(3)).unwrap();
            absences.push(kill_and_start(&mut world, at, setup(at), &mut chance));
        }
    }
    stage.is_over.store(true, Ordering::SeqCst);
    let tallies: Vec<Tally> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    stage.all_live(&world, app_ports);
    let start = Instant::now();
    stage.wait_until_complete(&world);
    for tally in &tallies {
        let Tally { answered, refused, unanswered, added } = tally;
        println!(
            "{answered} answered, {refused} refused, {} lost with their node, {} added",
            unanswered.len(),
            added.len()
        );
    }
    println!("{} nodes killed; complete again {:?} after the end", absences.len(), start.elapsed());
    assert!(tallies.iter().map(|tally| tally.answered).sum::<usize>() > 50, "{tallies:?}");
    check_unanswered(&tallies, &absences);
    check_calls(&world, &tallies);
    let kills = absences.iter().map(|absence| (absence.node, absence.from)).collect();
    let all = tenures(&world, &NODES, &kills);
    check_tenures(&all);
    check_acts(&all["both"], &world.acts("both"));
    let owned =
        |prefix: &str| all.iter().filter(|(id, _)| id.starts_with(prefix)).flat_map(|(_, own)| own).count();
    let (programs, apps, instances) = (owned("both"), owned("App"), owned("Inst"));
    println!(
        "tenures one after the other: {programs} of the program, {apps} of apps, {instances} of instances"
    );
    assert!(apps > 6 && instances > 3, "no app or instance had a second owner: {all:?}");
}

/// Kills a node, and a NATS server if there are several; then starts them again.
fn kill_and_start(world: &mut World, at: usize, setup: Setup<'_>, chance: &mut Chance) -> Absence {
    let (node, from) = (NODES[at], now());
    world.kill(node);
    let has_more_nats = world.nats.count() > 1;
    if has_more_nats {
        world.nats.kill(at);
    }
    std::thread::sleep(Duration::from_millis(chance.below(1500)));
    if has_more_nats {
        world.nats.start(at);
    }
    world.start_with(node, setup);
    Absence { node, from, until: now() }
}

/// Each call without an answer was sent to a node that was killed or away meanwhile.
fn check_unanswered(tallies: &[Tally], absences: &[Absence]) {
    for call in tallies.iter().flat_map(|tally| &tally.unanswered) {
        let is_explained = absences.iter().any(|absence| call.is_due_to(absence));
        assert!(is_explained, "no answer from a living node: {call:?}; {absences:?}");
    }
}

/// No number was added twice, none that was answered is missing, and no process that was replaced served again.
fn check_calls(world: &World, tallies: &[Tally]) {
    let (mut seen, mut processes) = (BTreeSet::new(), Vec::new());
    for (process, arguments) in world.calls("both") {
        let number = arguments["number"].as_u64().unwrap();
        assert!(seen.insert(number), "{number} was added twice");
        if processes.last() != Some(&process) {
            assert!(!processes.contains(&process), "{process} served after it was replaced: {processes:?}");
            processes.push(process);
        }
    }
    let answered: BTreeSet<u64> = tallies.iter().flat_map(|tally| tally.added.iter().copied()).collect();
    assert!(answered.is_subset(&seen), "answered and not carried out: {:?}", answered.difference(&seen));
    println!("{} numbers added, by {} processes one after the other", seen.len(), processes.len());
}

impl Stage {
    fn all_live(&self, world: &World, app_ports: [u16; 3]) {
        for role in self.roles.lock().iter_mut().filter(|role| role.living.is_none()) {
            role.start(world, app_ports);
        }
    }

    fn something_happens(&self, world: &World, app_ports: [u16; 3], chance: &mut Chance) {
        let mut roles = self.roles.lock();
        let count = roles.len() as u64;
        let role = &mut roles[usize::try_from(chance.below(count)).unwrap()];
        if role.living.take().is_none() || chance.below(2) == 0 {
            role.start(world, app_ports);
        }
    }

    /// Once every name leads to the process that has it now, at every node.
    fn wait_until_complete(&self, world: &World) {
        let roles = self.roles.lock();
        for node in NODES {
            for role in roles.iter() {
                let expected = format!("{} {} hi", role.name, role.living.as_ref().unwrap().pid());
                let mut last = None;
                eventually(&format!("{expected} at {node}"), || {
                    let answer =
                        world.node(node).call(&format!("{}__who", role.name), &json!({ "word": "hi" }));
                    let is_right = answer.as_ref() == Ok(&expected);
                    last = Some(answer);
                    is_right.then_some(())
                });
            }
        }
    }

    fn caller(self: &Arc<Self>, mut chance: Chance) -> std::thread::JoinHandle<Tally> {
        let stage = self.clone();
        std::thread::spawn(move || {
            let mut tally = Tally::default();
            while !stage.is_over.load(Ordering::SeqCst) {
                stage.one_call(&mut chance, &mut tally);
            }
            tally
        })
    }

    fn one_call(&self, chance: &mut Chance, tally: &mut Tally) {
        let at = usize::try_from(chance.below(3)).unwrap();
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let target = usize::try_from(chance.below(12)).unwrap();
        let name = self.roles.lock().get(target).map(|role| role.name.clone());
        let (tool, arguments) = match &name {
            Some(name) => (format!("{name}__who"), json!({ "word": number.to_string() })),
            None => ("both__add".to_owned(), json!({ "number": number })),
        };
        let sent = now();
        match attempt(self.ports[at], &tool, &arguments) {
            None => tally.unanswered.push(Unanswered { node: NODES[at], sent, ended: now() }),
            Some(Err(_)) => tally.refused += 1,
            Some(Ok(text)) => {
                tally.answered += 1;
                let Some(name) = name else {
                    tally.added.insert(number);
                    return;
                };
                let pid = text
                    .strip_prefix(&format!("{name} "))
                    .and_then(|rest| rest.strip_suffix(&format!(" {number}")));
                let pid = pid
                    .unwrap_or_else(|| panic!("{name} was asked for {number}, got {text}"))
                    .parse()
                    .unwrap();
                let roles = self.roles.lock();
                assert!(roles[target].pids.contains(&pid), "{text} is of another process");
            }
        }
    }
}

impl Role {
    fn start(&mut self, world: &World, app_ports: [u16; 3]) {
        let born = if self.is_app {
            Mortal::app(app_ports[self.node], &self.name)
        } else {
            Mortal::instance(&world.path(NODES[self.node]), &self.name)
        };
        self.pids.insert(born.pid());
        self.living = Some(born);
    }
}

#[test]
fn a_call_is_lost_with_its_own_node_alone() {
    let absence = Absence { node: "a", from: 10.0, until: 12.0 };
    let lost =
        |node: &'static str, sent: f64, ended: f64| Unanswered { node, sent, ended }.is_due_to(&absence);
    assert!(lost("a", 9.0, 10.5) && lost("a", 11.0, 11.1) && lost("a", 11.9, 14.0));
    assert!(!lost("a", 8.0, 9.9) && !lost("a", 12.1, 13.0) && !lost("b", 9.0, 11.0));
}
