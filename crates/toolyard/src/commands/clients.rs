//! What is known of other clients: where they keep their servers, and in which form. `import` takes servers from
//! there, `install` puts Toolyard in.

pub(super) mod read;
pub(super) mod jsonc;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::config::Variables;
use crate::system;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    #[value(alias = "claude")]
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Zed,
    Windsurf,
    Mcpproxy,
}

/// A file with servers.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The client, as people call it; empty for a file that was named.
    pub(super) client: &'static str,
    pub(super) path: PathBuf,
    /// The folder that the file belongs to, where it is no file of the user's own.
    pub(super) project: Option<PathBuf>,
}

impl Client {
    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
            Self::Mcpproxy => "mcpproxy",
        }
    }

    /// In the user's folders; for the systems that name them otherwise, all names are tried.
    fn in_home(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["$CLAUDE/.claude.json"],
            Self::ClaudeDesktop => &[
                "$CONFIG/Claude/claude_desktop_config.json",
                "~/Library/Application Support/Claude/claude_desktop_config.json",
            ],
            Self::Cursor => &["~/.cursor/mcp.json"],
            Self::Vscode => {
                &["$CONFIG/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json"]
            }
            Self::Codex => &["$CODEX/config.toml"],
            Self::Zed => &["$CONFIG/zed/settings.json"],
            Self::Windsurf => &["~/.codeium/windsurf/mcp_config.json"],
            Self::Mcpproxy => &["~/.mcpproxy.json"],
        }
    }

    /// The files of the user's own that it may have.
    pub(super) fn own_files(self, variables: &Variables<'_>) -> Vec<PathBuf> {
        let home = system::home(variables).unwrap_or_default();
        let said = |name: &str| variables(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let config = said("XDG_CONFIG_HOME").or_else(|| system::config_folder(variables));
        let folder = |name: &str| match name {
            "~" => home.clone(),
            "$CLAUDE" => said("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()),
            "$CODEX" => said("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            _ => config.clone().unwrap_or_else(|| home.join(".config")),
        };
        let path = |path: &&str| path.split_once('/').map(|(name, rest)| below(folder(name), rest));
        self.in_home().iter().filter_map(path).collect()
    }

    /// Its file of the user's own: the one that is there, or where it would be on this system.
    pub(super) fn own_file(self, variables: &Variables<'_>) -> Option<PathBuf> {
        let files = self.own_files(variables);
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let is_near = |path: &&PathBuf| path.parent().is_some_and(Path::is_dir);
        let usual = if std::env::consts::OS == "macos" { files.last() } else { files.first() };
        files.iter().find(is_there).or_else(|| files.iter().find(is_near)).or(usual).cloned()
    }

    /// Whether it seems to be on this machine: it has left something in the user's folders.
    pub(super) fn is_here(self, variables: &Variables<'_>) -> bool {
        let home = system::home(variables).unwrap_or_default();
        let its_folder =
            |path: &PathBuf| path.parent().is_some_and(|folder| folder != home && folder.is_dir());
        self.own_files(variables).iter().any(|path| path.is_file() || its_folder(path))
            || self == Self::ClaudeCode && home.join(".claude").is_dir()
    }

    /// The key under which its servers are.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::Windsurf | Self::Mcpproxy => {
                "mcpServers"
            }
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
        }
    }

    /// The file that it has for the project in this folder, if it has such files.
    pub(super) fn project_file(self, folder: &Path) -> Option<PathBuf> {
        self.in_project().map(|path| below(folder.to_owned(), path))
    }

    /// In the working directory.
    fn in_project(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some(".mcp.json"),
            Self::Cursor => Some(".cursor/mcp.json"),
            Self::Vscode => Some(".vscode/mcp.json"),
            Self::Codex => Some(".codex/config.toml"),
            Self::Zed => Some(".zed/settings.json"),
            Self::Mcpproxy => Some(".mcpproxy.json"),
            Self::ClaudeDesktop | Self::Windsurf => None,
        }
    }
}

impl Origin {
    /// A file that was named. Its folder is the project, unless it is one of a client's own folders in it.
    pub(super) fn of_file(path: &Path) -> Self {
        Self { client: "", path: path.to_owned(), project: None }
    }

    pub(super) fn label(&self) -> String {
        match self.client {
            "" => self.path.display().to_string(),
            client => format!("{client}, {}", self.path.display()),
        }
    }
}

/// As the system writes it.
fn below(folder: PathBuf, path: &str) -> PathBuf {
    path.split('/').fold(folder, |folder, name| folder.join(name))
}

/// Where the servers of these clients may be, or of all where none is named.
pub(super) fn origins(clients: &[Client], variables: &Variables<'_>) -> Vec<Origin> {
    let folder = std::env::current_dir().unwrap_or_default();
    let clients = if clients.is_empty() { Client::value_variants() } else { clients };
    let mut origins: Vec<Origin> = Vec::new();
    for client in clients {
        let own = client.own_files(variables).into_iter();
        let own = own.map(|path| Origin { client: client.name(), path, project: None });
        let project = client.project_file(&folder).map(|path| Origin {
            client: client.name(),
            path,
            project: Some(folder.clone()),
        });
        // In the home folder both can be one file.
        let more = own.chain(project).filter(|new| origins.iter().all(|old| old.path != new.path));
        let more: Vec<Origin> = more.collect();
        origins.extend(more);
    }
    origins.dedup_by(|a, b| a.path == b.path);
    origins
}
