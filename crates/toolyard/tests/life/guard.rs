//! The guard alone, with the test as its gateway: it ends with the status of its child, and never before the child's own
//! children.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::yard::{Yard, none, soon};

/// Two processes deaf to TERM, one of them in a session of its own; then the line `up`.
const LEAVES_BEHIND: &str = "\
    sh -c 'trap \"\" TERM; exec sleep 600' </dev/null >/dev/null 2>&1 &
    (setsid sh -c 'trap \"\" TERM; exec sleep 600' </dev/null >/dev/null 2>&1 &)
    sleep 0.1; echo up; ";

fn guarded(yard: &Yard, gateway: u32, script: &str) -> Child {
    let mut command = yard.toolyard();
    command.args(["guard", &gateway.to_string(), "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: &mut Child) -> ExitStatus {
    soon("its end", || child.try_wait().unwrap().ok_or_else(|| "still there".to_owned()))
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

fn terminate(child: &Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
}

#[test]
fn the_guard_ends_with_the_status_of_its_child() {
    let yard = Yard::new(&[]);
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 7", Some(7), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -TERM $$", None, Some(15)),
        ("kill -SEGV $$", None, Some(11)),
    ] {
        let status = ended(&mut guarded(&yard, std::process::id(), script));
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
    }
}

#[test]
fn a_program_that_cannot_run_is_named() {
    let yard = Yard::new(&[]);
    let mut command = yard.toolyard();
    command.args(["guard", &std::process::id().to_string(), "no-such-program"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("program `no-such-program` could not be started"), "{words}");
}

#[test]
fn without_its_gateway_the_guard_starts_nothing() {
    let yard = Yard::new(&[]);
    let mut child = guarded(&yard, 1, "echo started");
    assert!(ended(&mut child).success());
    assert_eq!(first_line(&mut child), "");
}

#[test]
fn a_child_that_closes_its_output_is_noticed() {
    let yard = Yard::new(&[]);
    let mut child = guarded(&yard, std::process::id(), "exec >&- 2>&-; exec sleep 600");
    let mut words = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut words).unwrap();
    child.stderr.as_mut().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(words, "");
    terminate(&child);
    assert_eq!(ended(&mut child).signal(), Some(15));
}

#[test]
fn a_signal_ends_everything_and_a_second_one_at_once() {
    for (times, limit) in [(1, Duration::from_secs(4)), (2, Duration::from_secs(1))] {
        let yard = Yard::new(&[]);
        let script = format!("{LEAVES_BEHIND} exec sleep 600");
        let mut child = guarded(&yard, std::process::id(), &script);
        assert_eq!(first_line(&mut child), "up\n");
        assert_eq!(yard.processes().len(), 4);
        let signalled = Instant::now();
        for _ in 0..times {
            terminate(&child);
            std::thread::sleep(Duration::from_millis(50));
        }
        ended(&mut child);
        assert!(signalled.elapsed() < limit, "{times}: {:?}", signalled.elapsed());
        assert_eq!(yard.processes(), []);
    }
}

#[test]
fn when_a_child_ends_so_do_its_own_children() {
    let yard = Yard::new(&[]);
    let mut child = guarded(&yard, std::process::id(), &format!("{LEAVES_BEHIND} exit 3"));
    assert_eq!(ended(&mut child).code(), Some(3));
    assert_eq!(yard.processes(), []);
}

#[test]
fn a_child_that_kills_its_group_does_not_kill_its_guard() {
    let yard = Yard::new(&[]);
    let mut child = guarded(&yard, std::process::id(), &format!("{LEAVES_BEHIND} kill -9 0"));
    assert_eq!(ended(&mut child).signal(), Some(9));
    soon("no process left", || none(&yard.left_of(&yard.processes())));
}
