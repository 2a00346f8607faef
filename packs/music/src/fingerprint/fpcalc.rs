//! `fpcalc`, for what we cannot decode. It gets the open file as its standard input, so there is no path that
//! could be taken for an option or lead elsewhere by then.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Fingerprint, SECONDS};

const LONGEST: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// 120 seconds are some 10 kB.
const MOST_OUTPUT: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct FpcalcOutput {
    duration: f64,
    fingerprint: Vec<u32>,
}

pub(super) fn take(program: &str, file: &File, stop: &dyn Fn() -> bool) -> Result<Fingerprint, String> {
    let input = file.try_clone().map_err(|error| error.to_string())?;
    let seconds = SECONDS.to_string();
    let child = Command::new(program)
        .args(["-json", "-raw", "-length", &seconds, "/dev/stdin"])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let mut child = Guard(child);
    let mut output = String::new();
    let reader = child.0.stdout.take().ok_or("no output")?;
    let read = std::thread::spawn(move || {
        // Output beyond the limit is dropped.
        let _ = reader.take(MOST_OUTPUT).read_to_string(&mut output);
        output
    });
    child.wait(stop)?;
    let output = read.join().map_err(|_| "its output cannot be read")?;
    let result: FpcalcOutput =
        serde_json::from_str(&output).map_err(|_| "it cannot decode the file".to_owned())?;
    Ok(Fingerprint { items: result.fingerprint, duration: result.duration })
}

/// A child that does not outlive its wait.
struct Guard(Child);

impl Guard {
    fn wait(&mut self, stop: &dyn Fn() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + LONGEST;
        loop {
            match self.0.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if stop() => return Err("cancelled".into()),
                Ok(None) if Instant::now() > deadline => return Err(format!("no answer within {LONGEST:?}")),
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
