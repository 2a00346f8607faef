//! The server that does wrong, as a program:
//! `rogue FAULT legacy|modern stdio | http|sse|tcp ADDRESS | unix PATH`. Prints where it listens.

use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

use toolyard_testkit::rogue::{Rogue, Web, serve_stdio, serve_tcp, serve_unix, serve_web};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [fault, era, door, place @ ..] = words.as_slice() else { return ExitCode::FAILURE };
    let rogue = Rogue { fault: fault.clone(), modern: era == "modern" };
    match serve(&rogue, door, place.first().map_or("", String::as_str)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn serve(rogue: &Rogue, door: &str, place: &str) -> io::Result<()> {
    match door {
        "stdio" => serve_stdio(rogue),
        "unix" => {
            let listener = UnixListener::bind(place)?;
            say(&format!("listening on unix://{place}"));
            serve_unix(rogue, &listener);
        }
        _ => {
            let listener = TcpListener::bind(place)?;
            let address = listener.local_addr()?;
            say(&format!("listening on {}://{address}", if door == "tcp" { "tcp" } else { "http" }));
            match door {
                "tcp" => serve_tcp(rogue, &listener),
                "sse" => serve_web(rogue, Web::Sse, &listener),
                _ => serve_web(rogue, Web::Http, &listener),
            }
        }
    }
    Ok(())
}

/// To stderr: over stdio, stdout is the transport. A failure to write is ignored.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
