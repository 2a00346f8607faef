//! The file that defines the service, for systemd and for launchd.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cli::Common;
use crate::failure::Failure;
use crate::settings;

/// Marks a file as ours.
pub(super) const MARK: &str = "Written by `toolyard service install`";

/// Variables that decide where things are and how other machines are reached.
const KEPT: [&str; 10] = [
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The command and its variables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    /// The log file of the gateway under launchd.
    log: Option<PathBuf>,
}

impl Service {
    /// This program with the config that is used in this folder, and the variables of this shell.
    pub(super) fn here(common: &Common, name: &str) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|error| anyhow::anyhow!("find this program: {error}"))?;
        let mut args = vec!["serve".to_owned()];
        for (flag, path) in [("--config", &common.config), ("--state-dir", &common.state_dir)] {
            if let Some(path) = path {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                args.extend([flag.to_owned(), path.display().to_string()]);
            }
        }
        let value = |name: &'static str| {
            let value = settings::variable(name).or_else(|| settings::variable(&name.to_ascii_lowercase()));
            Some((name, value.filter(|value| !value.is_empty() && !has_password(name, value))?))
        };
        let log = settings::variable("HOME").map(|home| PathBuf::from(home).join("Library/Logs"));
        let log = log.map(|folder| folder.join(format!("{name}.log")));
        Ok(Self {
            name: name.to_owned(),
            program,
            args,
            env: KEPT.into_iter().filter_map(value).collect(),
            log,
        })
    }

    /// A unit of the user's systemd.
    pub(super) fn systemd(&self) -> String {
        let words = std::iter::once(self.program.display().to_string()).chain(self.args.iter().cloned());
        let command = words.map(|word| quoted(&word.replace('$', "$$"))).collect::<Vec<_>>().join(" ");
        let mut text = format!(
            "# {MARK}, which replaces it.\n[Unit]\nDescription=Toolyard, a gateway for MCP servers\n\n[Service]\nType=notify\nExecStart={command}\n"
        );
        for (name, value) in &self.env {
            let _ = writeln!(text, "Environment={}", quoted(&format!("{name}={value}")));
        }
        // The gateway stops its children itself; whatever is left after that is killed.
        text.push_str(
            "ExecReload=/bin/kill -USR1 $MAINPID\nRestart=on-failure\nRestartSec=1\nKillMode=mixed\nTimeoutStopSec=30\n\n[Install]\nWantedBy=default.target\n",
        );
        text
    }

    /// An agent of launchd.
    pub(super) fn launchd(&self) -> String {
        let (mut words, mut env) = (String::new(), String::new());
        for word in std::iter::once(&self.program.display().to_string()).chain(&self.args) {
            let _ = writeln!(words, "    <string>{}</string>", escaped(word));
        }
        for (name, value) in &self.env {
            let _ = writeln!(env, "    <key>{name}</key>\n    <string>{}</string>", escaped(value));
        }
        let log = self.log.as_ref().map(|log| {
            format!(
                "  <key>StandardErrorPath</key>\n  <string>{}</string>\n",
                escaped(&log.display().to_string())
            )
        });
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- {MARK}, which replaces it. -->
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>EnvironmentVariables</key>
  <dict>
{env}  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
{}</dict>
</plist>
",
            self.label(),
            log.unwrap_or_default()
        )
    }

    fn label(&self) -> String {
        label(&self.name)
    }
}

/// The name of the service for launchd.
pub(super) fn label(name: &str) -> String {
    format!("dev.toolyard.{name}")
}

/// Whether this is a proxy with a password, with or without its scheme. No password belongs in the file.
fn has_password(name: &str, value: &str) -> bool {
    name.ends_with("_PROXY") && value.contains('@')
}

/// One word for systemd, in which `%` and `\` mean something.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('\n', "\\n");
    format!("\"{word}\"")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        Service {
            name: "yard".to_owned(),
            program: "/opt/100%/tool yard".into(),
            args: vec!["serve".into(), "--config".into(), "/home/you/$x \"y\".toml".into()],
            env: vec![("PATH", "/usr/bin:/a&b".to_owned())],
            log: Some("/home/you/Library/Logs/yard.log".into()),
        }
    }

    #[test]
    fn arguments_reach_the_program_unchanged() {
        let unit = service().systemd();
        let expected = r#"ExecStart="/opt/100%%/tool yard" "serve" "--config" "/home/you/$$x \"y\".toml""#;
        assert!(unit.lines().any(|line| line == expected), "{unit}");
        assert!(unit.contains("Environment=\"PATH=/usr/bin:/a&b\"\n"), "{unit}");
        let agent = service().launchd();
        assert!(agent.contains("<string>/usr/bin:/a&amp;b</string>"), "{agent}");
        assert!(agent.contains("<string>dev.toolyard.yard</string>"), "{agent}");
    }

    #[test]
    fn a_password_of_a_proxy_stays_out_of_the_file() {
        for (name, value, expected) in [
            ("HTTPS_PROXY", "http://me:secret@proxy:3128", true),
            ("HTTPS_PROXY", "me:secret@proxy:3128", true),
            ("HTTPS_PROXY", "http://proxy:3128", false),
            ("HTTPS_PROXY", "proxy:3128", false),
            ("NO_PROXY", "localhost,.example", false),
            ("PATH", "/opt/node@22/bin:/usr/bin", false),
        ] {
            assert_eq!(has_password(name, value), expected, "{name}={value}");
        }
    }
}
