//! `sandbox`: a real server that tries to leave it, and one that stays inside.

use std::process::Command;

use crate::gateway::Home;

/// A server whose one tool reads, writes and connects at the targets that it is given.
const SERVER: &str = r#"
import ctypes, json, os, socket, sys
X32 = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
def system_call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "called"
def attempt(op, target):
    if op == "read": return open(target).read()
    if op == "write": open(target, "w").write("x"); return "written"
    if op == "append": open(target, "a").write("x"); return "written"
    if op == "truncate": os.truncate(target, 0); return "truncated"
    if op == "remove": os.remove(target); return "removed"
    if op == "run": return os.popen("cat " + target + " 2>&1").read() or "nothing"
    if op == "signal": os.kill(int(target), 0); return "signalled"
    if op == "tcp": socket.create_connection(("127.0.0.1", int(target)), 5); return "connected"
    if op == "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(target))); return "sent"
    if op == "unix": socket.socket(socket.AF_UNIX); return "opened"
    if op == "call": return system_call(int(target), socket.AF_UNIX, socket.SOCK_STREAM, 0)
    if op == "x32": return system_call(int(target) | X32, socket.AF_UNIX, socket.SOCK_STREAM, 0)
    if op == "terminal": os.open(target, os.O_RDWR | os.O_NOCTTY); return "opened"
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "tools/call":
        args = m["params"]["arguments"]
        try: text, failed = attempt(args["op"], args["target"]), False
        except OSError as error: text, failed = error.strerror or str(error), True
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
    else:
        result = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
            "tools/list": {"tools": [{"name": "try", "inputSchema": {"type": "object"}}]},
        }.get(m["method"])
    answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}), flush=True)
"#;

/// A home with the server in a folder of its own, a folder to write to, and a file outside both.
fn home(net: bool) -> Home {
    let home = Home::new();
    home.write("server/server.py", SERVER).write("server/open.txt", "open").write("work/old.txt", "old");
    home.write("private.txt", "private");
    let (python, prefix) = python();
    let config = format!(
        "[upstreams.s]\ncommand = {python:?}\nargs = [\"server/server.py\"]\n\
         sandbox = {{ read = [\"server\", {prefix:?}], write = [\"work\"], net = {net} }}\n"
    );
    home.write("config.toml", &config);
    home
}

/// The interpreter itself, which `python3` may only lead to, and the folder that it is installed in.
fn python() -> (String, String) {
    let script = "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)";
    let output = std::process::Command::new("python3").args(["-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.next().unwrap())
}

/// What the server's attempt came to, called through a gateway of its own.
fn attempts(home: &Home, attempts: &[(&str, String)]) -> Vec<String> {
    let call = |(op, target): &(&str, String)| {
        let (op, target) = (format!("op={op}"), format!("target={target}"));
        let (_, stdout, stderr) = home.run(&[
            "--config",
            "config.toml",
            "--state-dir",
            "state",
            "tools",
            "call",
            "s:try",
            &op,
            &target,
        ]);
        format!("{stdout}{stderr}")
    };
    let results: Vec<String> = attempts.iter().map(call).collect();
    assert!(results.iter().all(|result| !result.contains("there is no tool")), "{results:?}");
    results
}

#[test]
fn a_server_that_stays_inside_its_sandbox_works() {
    let home = home(false);
    let path = |name: &str| home.path(name).display().to_string();
    let results = attempts(
        &home,
        &[
            ("read", path("server/open.txt")),
            ("write", path("work/new.txt")),
            ("remove", path("work/old.txt")),
        ],
    );
    assert!(results[0].contains("open"), "{results:?}");
    assert!(results[1].contains("written"), "{results:?}");
    assert!(results[2].contains("removed"), "{results:?}");
    assert!(home.path("work/new.txt").exists() && !home.path("work/old.txt").exists());
}

#[test]
fn a_server_that_reads_or_writes_outside_its_sandbox_is_refused() {
    let home = home(true);
    let path = |name: &str| home.path(name).display().to_string();
    let results = attempts(
        &home,
        &[
            ("read", path("private.txt")),
            ("write", path("new.txt")),
            ("append", path("server/open.txt")),
            ("truncate", path("private.txt")),
            ("remove", path("private.txt")),
            ("run", path("private.txt")),
        ],
    );
    for result in &results {
        assert!(result.contains("ermission denied"), "{results:?}");
    }
    assert_eq!(std::fs::read_to_string(home.path("private.txt")).unwrap(), "private");
    assert_eq!(std::fs::read_to_string(home.path("server/open.txt")).unwrap(), "open");
    assert!(!home.path("new.txt").exists());
}

#[test]
fn a_server_without_network_opens_no_socket() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let kinds = ["tcp", "udp", "unix"].map(|kind| (kind, port.clone()));
    for result in attempts(&home(false), &kinds) {
        assert!(result.contains("ermission denied"), "{result}");
    }
    let results = attempts(&home(true), &kinds[..1]);
    assert!(results[0].contains("connected"), "{results:?}");
}

/// The kernel lets a program of `x86_64` make each call under a second number.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_server_without_network_opens_no_socket_under_another_number() {
    let number = nix::libc::SYS_socket.to_string();
    for result in attempts(&home(false), &["call", "x32"].map(|op| (op, number.clone()))) {
        assert!(result.contains("ermission denied"), "{result}");
    }
    let results = attempts(&home(true), &[("call", number)]);
    assert!(results[0].contains("called"), "{results:?}");
}

/// A server that can open the terminal of its gateway can type commands into it.
#[test]
fn a_server_in_a_sandbox_cannot_open_the_terminal() {
    let results = attempts(&home(false), &[("terminal", "/dev/tty".to_owned())]);
    assert!(results[0].contains("ermission denied"), "{results:?}");
    let results = attempts(&home(false), &[("terminal", "/dev/null".to_owned())]);
    assert!(results[0].contains("opened"), "{results:?}");
}

#[test]
fn a_server_signals_no_process_outside_its_sandbox_where_the_kernel_can_prevent_it() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let kernel = (numbers.next().unwrap(), numbers.next().unwrap());
    let results = attempts(&home(true), &[("signal", std::process::id().to_string())]);
    let expected = if kernel >= (6, 12) { "not permitted" } else { "signalled" };
    assert!(results[0].contains(expected), "Linux {release}: {results:?}");
}

/// Runs a program on a kernel without Landlock: a filter of system calls answers as such a kernel does.
const WITHOUT_LANDLOCK: &str = r#"
import ctypes, os, struct, sys
LANDLOCK_CREATE_RULESET, ENOSYS, ALLOW, ERRNO = 444, 38, 0x7fff0000, 0x00050000
code = [(0x20, 0, 0, 0), (0x15, 0, 1, LANDLOCK_CREATE_RULESET), (0x06, 0, 0, ERRNO | ENOSYS), (0x06, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
class Filter(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("code", ctypes.c_void_p)]
filter = Filter(len(code), ctypes.cast(program, ctypes.c_void_p))
prctl = ctypes.CDLL(None, use_errno=True).prctl
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
assert prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and prctl(SECCOMP, FILTER, ctypes.byref(filter), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn without_landlock_in_the_kernel_a_server_with_a_sandbox_is_not_started() {
    let home = home(false);
    let started = "import pathlib; pathlib.Path('work/started').touch()\n";
    home.write("server/server.py", &format!("{started}{SERVER}"));
    let toolyard = home.toolyard(&["--config", "config.toml", "--state-dir", "state", "doctor"]);
    let mut command = Command::new("python3");
    command.args(["-c", WITHOUT_LANDLOCK]).arg(toolyard.get_program()).args(toolyard.get_args());
    command.current_dir(toolyard.get_current_dir().unwrap()).env_clear();
    command.envs(toolyard.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let expected = "this kernel cannot enforce `sandbox`: it needs Landlock, version 3 (Linux 6.2 or later, with \
                    `landlock` among its security modules)";
    assert!(stdout.contains(expected), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("remove `sandbox` to run it without one"), "{stdout}");
    assert!(!home.path("work/started").exists());
}

#[test]
fn a_sandbox_with_a_path_that_does_not_exist_starts_nothing() {
    let home = home(false);
    std::fs::remove_dir_all(home.path("work")).unwrap();
    let (_, stdout, _) = home.run(&["--config", "config.toml", "--state-dir", "state", "doctor"]);
    let why = format!("could not be started in its sandbox: `{}`", home.path("work").display());
    assert!(stdout.contains(&why), "{stdout}");
}
