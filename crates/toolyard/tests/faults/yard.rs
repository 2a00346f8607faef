//! The gateway under test: the real program with all its doors open, and a small server behind it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::gateway::{Gateway, Home};
use crate::usage::Usage;

pub(crate) struct Yard {
    pub(crate) home: Home,
    pub(crate) gateway: Gateway,
    pub(crate) http: String,
    pub(crate) tcp: String,
    pub(crate) unix: PathBuf,
}

impl Yard {
    pub(crate) fn open() -> Self {
        let home = Home::new();
        home.write("upstream.sh", include_str!("upstream.sh"));
        let upstream = "[upstreams.sh]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n";
        home.write(
            "config.toml",
            &format!("{upstream}[listen]\ntcp = \"127.0.0.1:0\"\n\n[apps]\nlisten = \"127.0.0.1:0\"\n"),
        );
        let gateway = home.start(&["--config", "config.toml"]);
        let note: Value =
            serde_json::from_slice(&std::fs::read(home.path("state/gateway.json")).unwrap()).unwrap();
        let text = |key: &str| note[key].as_str().unwrap().to_owned();
        let http = text("http").trim_start_matches("http://").to_owned();
        let tcp = text("tcp").trim_start_matches("tcp://").to_owned();
        Self { unix: text("socket").into(), home, gateway, http, tcp }
    }

    /// What the config of a client runs.
    pub(crate) fn shim(&self) -> Command {
        self.home.toolyard(&["stdio", "--config", "config.toml", "--state-dir", "state"])
    }

    /// How many lines with this text the server behind it has received.
    pub(crate) fn received(&self, what: &str) -> usize {
        let received = std::fs::read_to_string(self.home.path("received")).unwrap_or_default();
        received.lines().filter(|line| line.contains(what)).count()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.gateway)
    }
}
