//! What is measured: one operation at one concurrency, and the figure that counts.

pub(super) struct Case {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) operation: &'static str,
    /// Nothing where the operation calls no tool.
    pub(super) tool: Option<&'static str>,
    pub(super) size: usize,
    pub(super) workers: usize,
    /// Who answers behind the gateway.
    pub(super) behind: Behind,
    pub(super) figure: Figure,
    /// What the gateway should reach.
    pub(super) goal: Goal,
    /// What the view of everything should reach against nginx, in a run with other gateways.
    pub(super) nginx: Option<f64>,
}

/// What answers behind a gateway. Contestants that are not a gateway have only the upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    Upstream,
    /// A pack, in the process of the gateway.
    Pack,
    /// The upstream, of a gateway with limits, hooks and validation and of one without.
    Steps,
    /// A pack, of the same two gateways.
    PackSteps,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Median latency in microseconds: less is better.
    Median,
    /// Answers per second: more is better.
    Rate,
}

/// A bound on the ratio to another contestant.
pub(super) struct Goal {
    pub(super) to: &'static str,
    pub(super) bound: f64,
}

/// How many tools the upstream offers besides its own.
pub(super) const TOOLS: usize = 1000;

/// As a command line calls them.
pub(super) const KEYS: [&str; 7] =
    ["echo_1", "echo_32", "pack_32", "blob_4", "list", "steps_1", "pack_steps_1"];

pub(super) const CASES: [Case; 7] = [
    Case {
        key: "echo_1",
        title: "echo, 1 client",
        operation: "echo",
        tool: Some("echo"),
        size: 64,
        workers: 1,
        behind: Behind::Upstream,
        figure: Figure::Median,
        goal: Goal { to: "relay", bound: 1.25 },
        nginx: Some(1.08),
    },
    Case {
        key: "echo_32",
        title: "echo, 32 clients",
        operation: "echo",
        tool: Some("echo"),
        size: 64,
        workers: 32,
        behind: Behind::Upstream,
        figure: Figure::Rate,
        goal: Goal { to: "relay", bound: 0.8 },
        nginx: Some(0.95),
    },
    Case {
        key: "pack_32",
        title: "echo of a pack instead of the upstream, 32 clients",
        operation: "echo",
        tool: Some("echo"),
        size: 64,
        workers: 32,
        behind: Behind::Pack,
        figure: Figure::Rate,
        goal: Goal { to: "direct", bound: 1.0 },
        nginx: None,
    },
    Case {
        key: "blob_4",
        title: "1 MB answer, 4 clients",
        operation: "blob",
        tool: Some("blob"),
        size: 1024,
        workers: 4,
        behind: Behind::Upstream,
        figure: Figure::Rate,
        goal: Goal { to: "relay", bound: 0.85 },
        nginx: Some(1.1),
    },
    Case {
        key: "list",
        title: "tools/list of 1,000 tools, 1 client",
        operation: "list",
        tool: None,
        size: TOOLS,
        workers: 1,
        behind: Behind::Upstream,
        figure: Figure::Rate,
        goal: Goal { to: "direct", bound: 0.9 },
        nginx: Some(1.53),
    },
    Case {
        key: "steps_1",
        title: "echo with a limit, two hooks and validation, 1 client",
        operation: "echo",
        tool: Some("echo"),
        size: 64,
        workers: 1,
        behind: Behind::Steps,
        figure: Figure::Median,
        goal: Goal { to: "toolyard /mcp", bound: 1.1 },
        nginx: None,
    },
    Case {
        key: "pack_steps_1",
        title: "echo of a pack with a limit, two hooks and validation, 1 client",
        operation: "echo",
        tool: Some("echo"),
        size: 64,
        workers: 1,
        behind: Behind::PackSteps,
        figure: Figure::Median,
        goal: Goal { to: "toolyard /mcp", bound: 1.1 },
        nginx: None,
    },
];

impl Case {
    /// The goal against nginx, if there is one.
    pub(super) fn nginx_goal(&self) -> Option<Goal> {
        self.nginx.map(|bound| Goal { to: "nginx", bound })
    }
}

impl Figure {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Median => "p50 µs",
            Self::Rate => "per second",
        }
    }
}

impl Goal {
    pub(super) fn is_met(&self, figure: Figure, ratio: f64) -> bool {
        match figure {
            Figure::Median => ratio <= self.bound,
            Figure::Rate => ratio >= self.bound,
        }
    }

    pub(super) fn text(&self, figure: Figure) -> String {
        let sign = if figure == Figure::Median { '≤' } else { '≥' };
        format!("{sign} {} × {}", self.bound, self.to)
    }
}
