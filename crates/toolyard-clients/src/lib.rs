//! The config files of other clients: where they are, and their formats. `import` reads servers from
//! there, `install` puts Toolyard in.

mod error;
mod read;
mod adapt;
pub mod claude_hooks;
mod plan;
pub mod registry;
mod entry;
mod file;
mod json;
mod toml;
mod yaml;

use std::path::{Path, PathBuf};

pub use adapt::{Adapted, SecretUse, StoredSecret, VALUE_STAYS};
pub use entry::Entry;
pub use error::ClientError;
pub use file::{ClientFile, Scope};
pub use plan::{Action as ImportAction, Step as ImportStep, plan as plan_import};
pub use read::{Foreign, InFolder, Input};

use toolyard_config::Variables;
use toolyard_config::system;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Zed,
    Windsurf,
    GeminiCli,
    Opencode,
    Cline,
    Continue,
    Junie,
    Amp,
    Goose,
    Mcpproxy,
}

/// The systems whose folders differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    Macos,
    Windows,
}

/// A file with servers.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The client, as people call it; empty for a file that was named.
    pub client: &'static str,
    pub path: PathBuf,
    /// The folder that the file belongs to, where not a regular file of the user's own.
    pub project: Option<PathBuf>,
}

impl Client {
    pub const ALL: [Self; 15] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::Vscode,
        Self::Codex,
        Self::Zed,
        Self::Windsurf,
        Self::GeminiCli,
        Self::Opencode,
        Self::Cline,
        Self::Continue,
        Self::Junie,
        Self::Amp,
        Self::Goose,
        Self::Mcpproxy,
    ];

    /// The id, as users type it.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
            Self::GeminiCli => "gemini-cli",
            Self::Opencode => "opencode",
            Self::Cline => "cline",
            Self::Continue => "continue",
            Self::Junie => "junie",
            Self::Amp => "amp",
            Self::Goose => "goose",
            Self::Mcpproxy => "mcpproxy",
        }
    }

    /// Another word for it.
    pub fn alias(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("claude"),
            Self::GeminiCli => Some("gemini"),
            Self::Junie => Some("jetbrains"),
            _ => None,
        }
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
            Self::GeminiCli => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Cline => "Cline",
            Self::Continue => "Continue",
            Self::Junie => "Junie (JetBrains)",
            Self::Amp => "Amp",
            Self::Goose => "Goose",
            Self::Mcpproxy => "mcpproxy",
        }
    }

    /// The paths below the user's folders: on Linux, on macOS, on Windows.
    fn in_home(self) -> [&'static str; 3] {
        match self {
            Self::ClaudeCode => ["$CLAUDE/.claude.json"; 3],
            Self::ClaudeDesktop => [
                "$CONFIG/Claude/claude_desktop_config.json",
                "~/Library/Application Support/Claude/claude_desktop_config.json",
                "$APPDATA/Claude/claude_desktop_config.json",
            ],
            Self::Cursor => ["~/.cursor/mcp.json"; 3],
            Self::Vscode => [
                "$CONFIG/Code/User/mcp.json",
                "~/Library/Application Support/Code/User/mcp.json",
                "$APPDATA/Code/User/mcp.json",
            ],
            Self::Codex => ["$CODEX/config.toml"; 3],
            Self::Zed => {
                ["$CONFIG/zed/settings.json", "~/.config/zed/settings.json", "$APPDATA/Zed/settings.json"]
            }
            Self::Windsurf => ["~/.codeium/windsurf/mcp_config.json"; 3],
            Self::GeminiCli => ["~/.gemini/settings.json"; 3],
            Self::Opencode => [
                "$CONFIG/opencode/opencode.json",
                "~/.config/opencode/opencode.json",
                "~/.config/opencode/opencode.json",
            ],
            Self::Cline => [
                "$CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                "~/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                "$APPDATA/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ],
            Self::Continue => ["~/.continue/mcpServers/mcp.json"; 3],
            Self::Junie => ["~/.junie/mcp/mcp.json"; 3],
            Self::Amp => {
                ["$CONFIG/amp/settings.json", "~/.config/amp/settings.json", "~/.config/amp/settings.json"]
            }
            Self::Goose => [
                "$CONFIG/goose/config.yaml",
                "~/.config/goose/config.yaml",
                "$APPDATA/Block/goose/config/config.yaml",
            ],
            Self::Mcpproxy => ["~/.mcpproxy.json"; 3],
        }
    }

    /// The files of the user's own that it may have, under the names that any system has for them.
    pub fn own_files(self, variables: &Variables<'_>) -> Vec<PathBuf> {
        let systems = [System::Linux, System::Macos, System::Windows];
        let mut files: Vec<PathBuf> = Vec::new();
        for system in systems {
            let new = self.files_here(variables, system).into_iter();
            files.extend(new.filter(|new| !files.contains(new)).collect::<Vec<_>>());
        }
        files
    }

    /// The client's user-level file on a system. Several if it is installed more than once, none if unknown.
    pub fn files_here(self, variables: &Variables<'_>, system: System) -> Vec<PathBuf> {
        if self == Self::ClaudeDesktop && system == System::Windows {
            let packaged = packaged(variables);
            if !packaged.is_empty() {
                return packaged;
            }
        }
        let path = self.in_home()[system as usize];
        let place = path.split_once('/').and_then(|(name, rest)| Some((folder(name, variables)?, rest)));
        let usual = place.map(|(folder, rest)| below(folder, rest));
        // Which of the two counts where both are there is not for us to guess.
        let old = Some(()).filter(|()| self == Self::ClaudeCode).and_then(|()| old_file(variables));
        let usual = usual.filter(|usual| old.is_none() || usual.is_file());
        old.into_iter().chain(usual).collect()
    }

    /// Whether it seems to be on this machine: it has left something in the user's folders.
    pub fn is_here(self, variables: &Variables<'_>) -> bool {
        let home = system::home(variables).unwrap_or_default();
        let its_folder =
            |path: &PathBuf| path.parent().is_some_and(|folder| folder != home && folder.is_dir());
        let files = self.files_here(variables, System::here());
        files.iter().any(|path| path.is_file() || its_folder(path))
            || self == Self::ClaudeCode && home.join(".claude").is_dir()
    }

    /// The key under which its servers are.
    pub fn section(self) -> &'static str {
        match self {
            Self::ClaudeCode
            | Self::ClaudeDesktop
            | Self::Cursor
            | Self::Windsurf
            | Self::GeminiCli
            | Self::Cline
            | Self::Continue
            | Self::Junie
            | Self::Mcpproxy => "mcpServers",
            Self::Amp => "amp.mcpServers",
            Self::Opencode => "mcp",
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            Self::Goose => "extensions",
        }
    }

    /// The file that it has for the project in this folder, if it has such files.
    pub fn project_file(self, folder: &Path) -> Option<PathBuf> {
        self.in_project().map(|path| below(folder.to_owned(), path))
    }

    /// The path below the working directory, for clients with project files.
    fn in_project(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some(".mcp.json"),
            Self::Cursor => Some(".cursor/mcp.json"),
            Self::Vscode => Some(".vscode/mcp.json"),
            Self::Codex => Some(".codex/config.toml"),
            Self::Zed => Some(".zed/settings.json"),
            Self::Mcpproxy => Some(".mcpproxy.json"),
            Self::GeminiCli => Some(".gemini/settings.json"),
            Self::Opencode => Some("opencode.json"),
            Self::Continue => Some(".continue/mcpServers/mcp.json"),
            Self::Junie => Some(".junie/mcp/mcp.json"),
            Self::Amp => Some(".amp/settings.json"),
            Self::ClaudeDesktop | Self::Windsurf | Self::Cline | Self::Goose => None,
        }
    }
}

impl System {
    pub fn here() -> Self {
        match std::env::consts::OS {
            "macos" => Self::Macos,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

impl Origin {
    /// A file that was named. Its folder is the project, unless it is one of a client's own folders in it.
    pub fn of_file(path: &Path) -> Self {
        Self { client: "", path: path.to_owned(), project: None }
    }

    pub fn label(&self) -> String {
        match self.client {
            "" => self.path.display().to_string(),
            client => format!("{client}, {}", self.path.display()),
        }
    }
}

/// The folder that a path of the table starts with. A relative path in a variable is ignored, as the clients do.
fn folder(name: &str, variables: &Variables<'_>) -> Option<PathBuf> {
    let variable = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || system::home(variables).filter(|path| path.is_absolute());
    match name {
        "~" => home(),
        "$CLAUDE" => variable("CLAUDE_CONFIG_DIR").or_else(home),
        "$CODEX" => variable("CODEX_HOME").or_else(|| Some(home()?.join(".codex"))),
        "$APPDATA" => variable("APPDATA"),
        "$LOCALAPPDATA" => variable("LOCALAPPDATA"),
        _ => variable("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config"))),
    }
}

/// The former config file of Claude Code, which it still uses if the file exists.
fn old_file(variables: &Variables<'_>) -> Option<PathBuf> {
    let configured = variables("CLAUDE_CONFIG_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = configured.or_else(|| Some(folder("~", variables)?.join(".claude")))?;
    Some(folder.join(".config.json")).filter(|path| path.is_file())
}

/// Claude Desktop as Windows packages it: what it has below its own folder is all that it sees, and what others
/// write elsewhere it does not.
fn packaged(variables: &Variables<'_>) -> Vec<PathBuf> {
    let Some(local) = folder("$LOCALAPPDATA", variables) else { return Vec::new() };
    let packages = std::fs::read_dir(local.join("Packages")).into_iter().flatten().flatten();
    let named = packages.filter(|package| package.file_name().to_string_lossy().starts_with("Claude_"));
    let folders = named.map(|package| below(package.path(), "LocalCache/Roaming/Claude"));
    let files: Vec<PathBuf> = folders
        .filter(|folder| folder.is_dir())
        .map(|folder| folder.join("claude_desktop_config.json"))
        .collect();
    let there: Vec<PathBuf> = files.iter().filter(|path| path.is_file()).cloned().collect();
    if there.is_empty() { files } else { there }
}

/// Joins a path in the notation of the system.
fn below(folder: PathBuf, path: &str) -> PathBuf {
    path.split('/').fold(folder, |folder, name| folder.join(name))
}

/// The files in which these clients may have servers; those of all clients if none is named.
pub fn origins(clients: &[Client], variables: &Variables<'_>) -> Vec<Origin> {
    let folder = std::env::current_dir().unwrap_or_default();
    let clients = if clients.is_empty() { &Client::ALL[..] } else { clients };
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

#[cfg(test)]
mod tests;
