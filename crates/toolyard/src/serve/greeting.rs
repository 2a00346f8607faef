//! The first lines of the gateway's output: where it listens, how to connect a client, its upstreams.

use std::net::SocketAddr;

use toolyard_config::state_dir::Addresses;
use toolyard_config::{Config, Found, OffUpstream};

use crate::packs::{PackState, states};
use crate::say;

pub(super) struct Greeting<'a> {
    pub(super) addresses: &'a Addresses,
    /// The default address, if another program uses it.
    pub(super) taken: Option<SocketAddr>,
    /// The address for apps, if another program uses it.
    pub(super) apps_taken: Option<SocketAddr>,
    pub(super) found: &'a Found,
    pub(super) config: &'a Config,
    pub(super) quiet: bool,
}

/// The line `listening on …` comes first and exactly once: programs wait for it.
pub(super) fn print(greeting: &Greeting<'_>) {
    say::line(format_args!("listening on {}", greeting.addresses.http));
    if greeting.quiet {
        return;
    }
    if let Some(taken) = greeting.taken {
        say::line(format_args!("  {taken} is taken, so this is the next free port"));
    }
    say::line(format_args!("  connect a client: {}", connect_line(greeting)));
    if let Some(tcp) = &greeting.addresses.tcp {
        say::line(format_args!("  newline JSON-RPC: {tcp}"));
    }
    if let Some(models) = &greeting.addresses.models {
        say::line(format_args!("  model proxy: {models}"));
    }
    if let Some(socket) = &greeting.addresses.socket {
        say::line(format_args!("  for `toolyard stdio`: {}", socket.display()));
    }
    if let Some(apps) = &greeting.addresses.apps {
        say::line(format_args!("  apps register at: {apps}"));
    } else if let Some(taken) = greeting.apps_taken {
        say::line(format_args!("  apps register at: nowhere yet, another program has {taken}"));
    }
    say::line(format_args!("  upstreams: {}", upstreams(greeting)));
    say::line(format_args!("  packs: {}", packs(greeting.config)));
}

fn connect_line(greeting: &Greeting<'_>) -> String {
    let url = reachable(&greeting.addresses.http, greeting.config.listen.hosts.first());
    let header = match greeting.config.listen.token {
        Some(_) => " --header \"Authorization: Bearer TOKEN\"",
        None => "",
    };
    format!("claude mcp add -s user --transport http toolyard {url}/mcp{header}")
}

/// A listener on all addresses is reached by one of them.
fn reachable(url: &str, host: Option<&String>) -> String {
    let name = host.map_or("127.0.0.1", String::as_str);
    url.replace("://0.0.0.0:", &format!("://{name}:")).replace("://[::]:", &format!("://{name}:"))
}

fn upstreams(greeting: &Greeting<'_>) -> String {
    let upstreams = &greeting.config.upstreams;
    let on: Vec<&str> = upstreams.on.iter().map(|upstream| upstream.id.as_str()).collect();
    let off: Vec<String> = upstreams.off.iter().map(off_label).collect();
    let on = if on.is_empty() { "none, only the built-in tools".to_owned() } else { on.join(", ") };
    let off = if off.is_empty() { String::new() } else { format!("; switched off: {}", off.join(", ")) };
    let origin = match (greeting.found.names(), &greeting.found.user_file) {
        (Some(files), _) => format!("from {files}"),
        (None, Some(_)) => "add some: toolyard add NAME -- COMMAND…, or toolyard import".to_owned(),
        (None, None) => "add some in a file, and name it with --config".to_owned(),
    };
    format!("{on}{off} ({origin})")
}

/// An upstream that is off, with the reason where that is not the config.
pub(crate) fn off_label(off: &OffUpstream) -> String {
    match off.reason() {
        Some(reason) => format!("{} ({reason})", off.id),
        None => off.id.to_string(),
    }
}

/// A pack that is off is listed with the reason.
fn packs(config: &Config) -> String {
    let descriptions = states(config).into_iter().map(|PackState { pack, config }| match config {
        Ok(_) => pack.name().to_owned(),
        Err(reason) => format!("{} (off: {reason})", pack.name()),
    });
    descriptions.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_client_is_given_an_address_it_can_reach() {
        let host = "yard.example".to_owned();
        assert_eq!(reachable("http://127.0.0.1:1", Some(&host)), "http://127.0.0.1:1");
        assert_eq!(reachable("http://0.0.0.0:1", Some(&host)), "http://yard.example:1");
        assert_eq!(reachable("http://[::]:1", None), "http://127.0.0.1:1");
    }
}
