//! Who owned what, and when, as the logs of the nodes tell it: fencing numbers, with the time of each begin and end.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use super::world::World;

const BEGINS: &str = "this node owns an upstream";
/// An app, an instance or a server at an address is served without a claim, too.
const ENDS: [&str; 2] =
    ["this node has given up an upstream", "the claim of this node to an upstream has ended"];

/// One node owned one id, from its claim until it gave the id up or was killed.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    pub(crate) fence: u64,
    pub(crate) node: &'static str,
    pub(crate) begin: f64,
    /// Nothing if it has not ended.
    pub(crate) end: Option<f64>,
}

/// When nodes were killed, in seconds since 1970: just before the signal was sent.
pub(crate) type Kills = Vec<(&'static str, f64)>;

pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// All tenures of each id, in the order of their fencing numbers.
pub(crate) fn tenures(world: &World, nodes: &[&'static str], kills: &Kills) -> BTreeMap<String, Vec<Tenure>> {
    let mut all: BTreeMap<String, Vec<Tenure>> = BTreeMap::new();
    for node in nodes.iter().copied() {
        let log = world.log(node);
        for line in log.lines().filter(|line| line.contains(BEGINS)) {
            let (id, fence, begin) = (field(line, "id"), field(line, "fence"), time(line));
            let is_end = |other: &&str| {
                ENDS.iter().any(|end| other.contains(end))
                    && field(other, "id") == id
                    && field(other, "fence") == fence
            };
            let given_up = log.lines().filter(is_end).map(time);
            let killed = kills.iter().filter(|(name, _)| *name == node).map(|(_, at)| *at);
            let end = given_up.chain(killed).filter(|at| *at >= begin).min_by(f64::total_cmp);
            let fence = fence.parse().unwrap();
            all.entry(id).or_default().push(Tenure { fence, node, begin, end });
        }
    }
    for tenures in all.values_mut() {
        tenures.sort_by(|a, b| a.fence.cmp(&b.fence).then(a.begin.total_cmp(&b.begin)));
    }
    all
}

/// A later owner has a larger number, and begins after the earlier one has ended.
pub(crate) fn check_tenures(all: &BTreeMap<String, Vec<Tenure>>) {
    for (id, tenures) in all {
        for pair in tenures.windows(2) {
            let [earlier, later] = pair else { continue };
            assert!(earlier.fence < later.fence || earlier.node == later.node, "{id}: {pair:?}");
            assert!(earlier.end.is_some_and(|end| end <= later.begin), "{id} had two owners: {pair:?}");
        }
    }
}

/// Every call that reached a program, with its process and time: no process acts in the tenure of a later owner.
pub(crate) fn check_acts(tenures: &[Tenure], acts: &[(u64, f64)]) {
    let mut of_process: BTreeMap<u64, u64> = BTreeMap::new();
    for (process, at) in acts {
        let tenure = tenures.iter().rfind(|tenure| tenure.begin <= *at);
        let fence = tenure.unwrap_or_else(|| panic!("a call at {at}, before {tenures:?}")).fence;
        let first = of_process.entry(*process).or_insert(fence);
        assert_eq!(
            *first, fence,
            "the process {process} acted at {at}, after a later owner had begun: {tenures:?}"
        );
    }
}

fn field(line: &str, name: &str) -> String {
    let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split(' ').next().unwrap().trim_matches('"').to_owned()
}

/// The time of a record of the log (`2026-07-28T10:20:30.123456Z`), in seconds since 1970.
fn time(line: &str) -> f64 {
    let (date, rest) = line.split_once('T').unwrap();
    let (clock, _) = rest.split_once('Z').unwrap();
    let parts = |text: &str, by: char| text.split(by).map(|part| part.parse().unwrap()).collect::<Vec<f64>>();
    let (date, clock) = (parts(date, '-'), parts(clock, ':'));
    // The year begins in March here, so that the leap day is its last.
    let (year, month) = if date[1] < 3.0 { (date[0] - 1.0, date[1] + 9.0) } else { (date[0], date[1] - 3.0) };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = 365.0 * year + leap_days + ((153.0 * month + 2.0) / 5.0).floor() + date[2] - 719_469.0;
    86_400.0 * days + 3_600.0 * clock[0] + 60.0 * clock[1] + clock[2]
}

#[test]
fn times_of_the_log_are_read() {
    for (line, seconds) in [
        ("1970-01-01T00:00:00.000000Z INFO", 0.0),
        ("2000-02-29T12:00:01.500000Z INFO", 951_825_601.5),
        ("2026-11-18T15:42:32.000000Z INFO", 1_795_016_552.0),
    ] {
        assert!((time(line) - seconds).abs() < 1e-3, "{line}: {}", time(line));
    }
}
