//! The report of the running gateway: apps, discovery, calls per upstream and per client, and the last
//! calls with their duration.

use serde_json::Value;

use crate::say;

/// How many of the last calls are shown; `--json` prints all that are remembered.
const LAST_CALLS: usize = 10;
const NOTHING: &[Value] = &[];

pub(super) fn print(report: &Value) {
    apps(items(report, "apps"));
    discovery(items(report, "discovery"));
    packs(items(report, "packs"));
    upstreams(items(report, "upstreams"));
    clients(items(report, "clients"));
    calls(items(report, "calls"));
}

fn items<'a>(report: &'a Value, key: &str) -> &'a [Value] {
    report[key].as_array().map_or(NOTHING, Vec::as_slice)
}

/// A text, or a number, or a dash.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn section<const N: usize>(title: &str, head: [&str; N], rows: Vec<[String; N]>) {
    if rows.is_empty() {
        return;
    }
    say::result(format_args!("\n{title}"));
    let table: Vec<[String; N]> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    say::table(&table);
}

fn apps(apps: &[Value]) {
    let head = ["APP", "STATUS", "CONNECTED", "LAST ACTIVITY", "CALLS", "PROCESS", "ENDPOINT"];
    section("apps", head, apps.iter().map(app_row).collect());
}

fn app_row(app: &Value) -> [String; 7] {
    let calls = format!("{} under way, {} waiting", app["underWay"], app["waiting"]);
    [
        cell(&app["id"]),
        cell(&app["status"]),
        cell(&app["connectedAt"]),
        cell(&app["lastActivity"]),
        calls,
        cell(&app["pid"]),
        cell(&app["endpoint"]),
    ]
}

fn discovery(ways: &[Value]) {
    for way in ways {
        let places: Vec<String> = items(way, "places").iter().map(cell).collect();
        let (found, skipped) = (items(way, "found"), items(way, "skipped"));
        say::result(format_args!(
            "\ndiscovery by {}: {} found, looked at {}",
            cell(&way["way"]),
            found.len(),
            places.join(", ")
        ));
        for one in found {
            let id = cell(&one["id"]);
            let endpoint = cell(&one["endpoint"]);
            let origin = cell(&one["origin"]);
            say::result(format_args!("  {id} at {endpoint} ({origin})"));
        }
        for one in skipped {
            say::result(format_args!("  left out: {}: {}", cell(&one["origin"]), cell(&one["why"])));
        }
    }
}

/// The background jobs of packs.
fn packs(packs: &[Value]) {
    let mut rows = Vec::new();
    for pack in packs {
        let name = cell(&pack["pack"]);
        rows.extend(items(pack, "work").iter().map(|work| [name.clone(), "-".to_owned(), cell(work)]));
        let child = |child: &Value| [name.clone(), cell(&child["pid"]), cell(&child["program"])];
        rows.extend(items(pack, "children").iter().map(child));
    }
    section("background work of packs", ["PACK", "PROCESS", "WORK OR PROGRAM"], rows);
}

/// Upstreams that were called, and those with problems.
fn upstreams(upstreams: &[Value]) {
    let head = ["UPSTREAM", "KIND", "STATE", "SINCE", "CALLS", "FAILED", "MEAN", "SLOWEST"];
    section("upstreams", head, upstreams.iter().map(upstream_row).collect());
}

fn upstream_row(upstream: &Value) -> [String; 8] {
    let calls = &upstream["calls"];
    [
        cell(&upstream["id"]),
        cell(&upstream["kind"]),
        cell(&upstream["state"]),
        cell(&upstream["since"]),
        cell(&calls["total"]),
        cell(&calls["failed"]),
        milliseconds(&calls["meanMs"]),
        milliseconds(&calls["slowestMs"]),
    ]
}

fn clients(clients: &[Value]) {
    let head = ["CLIENT", "PRINCIPAL", "CALLS", "FAILED", "MEAN", "SLOWEST"];
    section("clients", head, clients.iter().map(client_row).collect());
}

fn client_row(client: &Value) -> [String; 6] {
    let calls = &client["calls"];
    [
        cell(&client["client"]),
        cell(&client["principal"]),
        cell(&calls["total"]),
        cell(&calls["failed"]),
        milliseconds(&calls["meanMs"]),
        milliseconds(&calls["slowestMs"]),
    ]
}

/// Repeated calls, as of programs that poll, are one line.
fn calls(calls: &[Value]) {
    let head = ["CALL", "WHAT", "TOOK", "STATUS", "PRINCIPAL", "CLIENT"];
    section("the last calls", head, calls.chunk_by(is_same_call).take(LAST_CALLS).map(call_row).collect());
}

fn is_same_call(one: &Value, other: &Value) -> bool {
    ["tool", "method", "status", "code", "error", "principal", "session"]
        .iter()
        .all(|key| one[key] == other[key])
}

/// One line for calls that differ only in their time.
fn call_row(run: &[Value]) -> [String; 6] {
    let call = &run[0];
    let more = [&call["code"], &call["error"]].into_iter().find(|value| !value.is_null());
    let status = cell(&call["status"]);
    let status = more.map_or(status.clone(), |more| format!("{status} ({})", cell(more)));
    let what = if call["tool"].is_null() { &call["method"] } else { &call["tool"] };
    let times = if run.len() > 1 { format!(" ({} times)", run.len()) } else { String::new() };
    [
        cell(&call["at"]),
        format!("{}{times}", cell(what)),
        milliseconds(&call["durationMs"]),
        status,
        cell(&call["principal"]),
        cell(&call["session"]),
    ]
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{number} ms"))
}
