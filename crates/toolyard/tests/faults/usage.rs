//! The resources of a gateway, which must not grow.

use serde_json::json;

use crate::gateway::Gateway;
use crate::http;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    pub(crate) files: usize,
    pub(crate) children: usize,
    pub(crate) tasks: u64,
    pub(crate) kilobytes: u64,
}

impl Usage {
    pub(crate) fn of(gateway: &Gateway) -> Self {
        let process = format!("/proc/{}", gateway.id());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let children = std::fs::read_dir(format!("{process}/task")).unwrap().flatten();
        let children = children.map(|task| std::fs::read_to_string(task.path().join("children")));
        let call = json!({ "name": "yard__status", "arguments": {} });
        let about = http::read(http::modern(&gateway.url, "tools/call", call)).message();
        Self {
            files: open_files(gateway),
            children: children.flatten().map(|ids| ids.split_whitespace().count()).sum(),
            tasks: about["result"]["structuredContent"]["tasks"].as_u64().unwrap(),
            kilobytes: memory.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    /// Nothing is left of what came after `before`, but for memory that an allocator keeps.
    pub(crate) fn is_like(&self, before: Self, kept: u64) -> bool {
        self.files <= before.files
            && self.children <= before.children
            && self.tasks <= before.tasks
            && self.kilobytes <= before.kilobytes + kept
    }
}

pub(crate) fn open_files(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.id())).unwrap().count()
}
