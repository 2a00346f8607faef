//! Each client is looked for where it is on this system, and nowhere else.

use super::*;

#[test]
fn each_system_has_its_own_folders() {
    let home = tempfile::tempdir().unwrap();
    let check = |client: Client, system: System, set: &[(&str, &str)], expected: &str| {
        let variable = |name: &str| {
            let below = |path: &str| home.path().join(path).to_str().unwrap().to_owned();
            let set = set.iter().find(|(set, _)| *set == name);
            let set = set.map(|(_, path)| path.strip_prefix("~/").map_or((*path).to_owned(), below));
            set.or_else(|| {
                ["HOME", "USERPROFILE"].contains(&name).then(|| home.path().to_str().unwrap().to_owned())
            })
        };
        let found = client.files_here(&variable, system);
        let expected: Vec<PathBuf> = expected
            .split_whitespace()
            .map(|path| below(home.path().into(), &path.replace('+', " ")))
            .collect();
        assert_eq!(found, expected, "{client:?} {system:?} {set:?}");
    };
    let windows = [("APPDATA", "~/R"), ("LOCALAPPDATA", "~/L"), ("XDG_CONFIG_HOME", "~/x")];
    let (xdg, relative) =
        ([("XDG_CONFIG_HOME", "~/x")], [("XDG_CONFIG_HOME", "x"), ("CLAUDE_CONFIG_DIR", "c")]);
    check(Client::Vscode, System::Linux, &[], ".config/Code/User/mcp.json");
    check(Client::Vscode, System::Linux, &xdg, "x/Code/User/mcp.json");
    check(Client::Zed, System::Linux, &relative, ".config/zed/settings.json");
    check(Client::ClaudeCode, System::Linux, &relative, ".claude.json");
    check(Client::ClaudeCode, System::Linux, &[("CLAUDE_CONFIG_DIR", "~/c")], "c/.claude.json");
    check(Client::Vscode, System::Macos, &xdg, "Library/Application+Support/Code/User/mcp.json");
    check(Client::Zed, System::Macos, &xdg, ".config/zed/settings.json");
    check(Client::Vscode, System::Windows, &windows, "R/Code/User/mcp.json");
    check(Client::Zed, System::Windows, &windows, "R/Zed/settings.json");
    check(Client::Zed, System::Windows, &[], "");
    check(Client::ClaudeDesktop, System::Windows, &windows, "R/Claude/claude_desktop_config.json");
    let packaged = |name: &str| format!("L/Packages/{name}/LocalCache/Roaming/Claude");
    let (one, two) = (packaged("Claude_one"), packaged("Claude_two"));
    std::fs::create_dir_all(home.path().join(&one)).unwrap();
    std::fs::create_dir_all(home.path().join(packaged("Other_one"))).unwrap();
    let file = |folder: &str| format!("{folder}/claude_desktop_config.json");
    check(Client::ClaudeDesktop, System::Windows, &windows, &file(&one));
    std::fs::create_dir_all(home.path().join(&two)).unwrap();
    std::fs::write(home.path().join(file(&two)), "{}").unwrap();
    check(Client::ClaudeDesktop, System::Windows, &windows, &file(&two));
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    std::fs::write(home.path().join(".claude/.config.json"), "{}").unwrap();
    check(Client::ClaudeCode, System::Linux, &[], ".claude/.config.json");
    std::fs::write(home.path().join(".claude.json"), "{}").unwrap();
    check(Client::ClaudeCode, System::Linux, &[], ".claude/.config.json .claude.json");
}
