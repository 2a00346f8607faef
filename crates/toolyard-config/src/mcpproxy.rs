//! `.mcpproxy.json`, the config of the app proxy that Toolyard replaces, taken as it is: every key of it has an
//! effect here, those that were only designed too.

use std::time::Duration;

use toolyard_core::discovery::{DiscoveredEndpoint, NamedEndpoint};
use toolyard_proto::name::sanitize_upstream_id;
use toolyard_proto::token::Rules;

use super::apps::{
    AppsConfig, LONGEST_CONNECT, LONGEST_TIMEOUT, MAX_SCAN_INTERVAL, Scan, read_count, read_endpoint,
    read_tcp,
};
use super::auth::{LONGEST as LONGEST_WINDOW, read_secret};
use super::log::LogConfig;
use super::reader::{Field, Reader, Section};
use super::tree::Value;
use crate::log::LogLevel;

/// The section, as the program read it and as its successor was to read it.
pub(crate) const SECTIONS: [&str; 2] = ["Proxy", "McpProxy"];

const LEVELS: [(&str, LogLevel); 7] = [
    ("Trace", LogLevel::Trace),
    ("Debug", LogLevel::Debug),
    ("Information", LogLevel::Info),
    ("Warning", LogLevel::Warn),
    ("Error", LogLevel::Error),
    ("Critical", LogLevel::Error),
    ("None", LogLevel::Off),
];

/// Changes are gathered no longer than this.
const LONGEST_DEBOUNCE: Duration = Duration::from_mins(1);

/// The settings of such a file.
#[derive(Default)]
pub(crate) struct McpProxy {
    pub(crate) apps: AppsConfig,
    pub(crate) auth: Option<Rules>,
    pub(crate) log: Option<LogConfig>,
    pub(crate) debounce: Option<Duration>,
}

pub(crate) fn read(mut root: Section, reader: &mut Reader<'_>) -> McpProxy {
    let mut proxy = McpProxy::default();
    for section in SECTIONS {
        if let Some(section) = root.section(reader, section) {
            proxy.take(section, reader);
        }
    }
    if let Some(mut logging) = root.section(reader, "Logging") {
        if let Some(mut levels) = logging.section(reader, "LogLevel") {
            proxy.log = levels.take("Default").and_then(|field| read_level(reader, &field)).or(proxy.log);
            levels.take_all();
        }
        logging.take_all();
    }
    root.finish(reader);
    proxy
}

impl McpProxy {
    fn take(&mut self, mut section: Section, reader: &mut Reader<'_>) {
        let apps = &mut self.apps;
        apps.tcp = section.take("BindAddress").and_then(|field| read_tcp(reader, &field)).unwrap_or(apps.tcp);
        apps.max_connections = section.take("MaxConnections").and_then(|field| read_count(reader, &field));
        apps.endpoints = section.take("Apps").map(|field| read_apps(reader, &field)).unwrap_or_default();
        let mut time =
            |key, least, most| section.take(key).and_then(|field| read_time(reader, &field, least, most));
        let second = Duration::from_secs(1);
        apps.timeout = time("ToolTimeout", second, LONGEST_TIMEOUT);
        apps.connect_timeout = time("ConnectTimeout", second, LONGEST_CONNECT);
        let scan = time("DiscoveryScanInterval", second, MAX_SCAN_INTERVAL);
        let debounce = time("CatalogDebounce", Duration::from_millis(1), LONGEST_DEBOUNCE);
        apps.scan = scan.map_or(apps.scan, Scan::Every);
        self.debounce = debounce.or(self.debounce);
        self.log = section.take("LogLevel").and_then(|field| read_level(reader, &field)).or(self.log);
        self.auth = read_auth(&mut section, reader).or(self.auth.take());
        section.finish(reader);
    }
}

fn read_level(reader: &mut Reader<'_>, field: &Field) -> Option<LogConfig> {
    let level = field.choice(reader, &LEVELS)?;
    Some(LogConfig { level: Some(level), ..LogConfig::default() })
}

fn read_auth(section: &mut Section, reader: &mut Reader<'_>) -> Option<Rules> {
    let (secret, expiry) = (section.take("SharedSecret"), section.take("TokenExpiry"));
    let window = expiry
        .as_ref()
        .and_then(|field| read_time(reader, field, Duration::from_secs(1), LONGEST_WINDOW))
        .map_or(Rules::WINDOW, |time| time.as_secs());
    let Some(secret) = secret else {
        if let Some(expiry) = expiry {
            expiry.warn(reader, "has no effect without `SharedSecret`", "no token is required; remove it");
        }
        return None;
    };
    let secrets = vec![read_secret(reader, &secret)?];
    Some(Rules { secrets, window, skew: Rules::SKEW })
}

fn read_apps(reader: &mut Reader<'_>, field: &Field) -> Vec<NamedEndpoint> {
    if !matches!(field.value(), Value::List(_)) {
        let help = "write \"Apps\": [{ \"Name\": \"MyApp\", \"Endpoint\": \"tcp://localhost:5001\" }]";
        field.error(reader, format!("expected a list of apps, found {}", field.value().kind()), help);
        return Vec::new();
    }
    let mut apps: Vec<NamedEndpoint> = Vec::new();
    for item in field.items(reader) {
        let place = item.clone();
        let Some(mut app) = item.section(reader) else { continue };
        let (name, endpoint) = (app.take("Name"), app.take("Endpoint"));
        let description = app.take("Description").and_then(|field| field.text(reader));
        app.finish(reader);
        let Some(name) = name else {
            place.error(reader, "`Name` is missing", "write the name under which the app registers");
            continue;
        };
        let endpoint: Option<DiscoveredEndpoint> = endpoint.and_then(|field| read_endpoint(reader, &field));
        let Some(text) = name.text(reader) else { continue };
        // One without an endpoint comes by itself.
        let Some(endpoint) = endpoint else { continue };
        let id = sanitize_upstream_id(&text, |id| apps.iter().any(|other| other.id.fold() == id));
        if id.as_str() != text {
            reader.note(name.at, &name.path, format!("is called `{id}` here"));
        }
        apps.push(NamedEndpoint { id, endpoint, description });
    }
    apps
}

/// A time as .NET writes it (`00:00:30`), as Toolyard does (`30s`, also `500ms`), or a number of seconds.
fn read_time(reader: &mut Reader<'_>, field: &Field, least: Duration, most: Duration) -> Option<Duration> {
    let time = match field.value() {
        Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
        Value::Text(text) => parse_time(text),
        _ => None,
    };
    let Some(time) = time else {
        let help = format!("write {}", field.example(reader, "\"00:00:30\""));
        field.error(reader, "expected a time, such as \"00:00:30\", \"30s\" or whole seconds", help);
        return None;
    };
    if time < least || time > most {
        let message = format!("expected a time from {least:?} to {} seconds", most.as_secs());
        let help = "remove the key for the usual time";
        field.error(reader, message, help);
        return None;
    }
    Some(time)
}

fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(number) = text.strip_suffix("ms") {
        return number.trim().parse().ok().map(Duration::from_millis);
    }
    let Some((hours, rest)) = text.split_once(':') else { return super::duration::parse(text) };
    let (days, hours) = hours.split_once('.').unwrap_or(("0", hours));
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let [days, hours, minutes] = [days, hours, minutes].map(|part| part.parse::<u64>().ok());
    let whole = days?.checked_mul(24)?.checked_add(hours?)?.checked_mul(60)?.checked_add(minutes?)?;
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (0.0..60.0).contains(seconds))?;
    Some(Duration::from_secs(whole.checked_mul(60)?) + Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_their_program_wrote_them() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(parse_time(text), millis.map(Duration::from_millis), "{text}");
        };
        check("00:00:30", Some(30_000));
        check("00:30:00", Some(1_800_000));
        check("1.02:03:04", Some(93_784_000));
        check("00:00:00.5", Some(500));
        check("12:30", Some(45_000_000));
        check("500ms", Some(500));
        check("5s", Some(5_000));
        check("30m", Some(1_800_000));
        for text in ["", "x", "1:2:60", "1:-2:3", ":", "99999999999999999999:00:00", "ms"] {
            check(text, None);
        }
    }
}
