//! What is put into any TOML file comes out without a trace.

use proptest::prelude::*;

use super::*;

const TABLE: &str = "[mcp_servers.toolyard]\ncommand = \"/bin/toolyard\"\nargs = [\"stdio\"]";

fn with(text: &str) -> String {
    super::with(text, "mcp_servers", "toolyard", &Entry::example())
}

fn without(text: &str) -> Option<String> {
    super::without(text, "mcp_servers", "toolyard")
}

#[test]
fn a_section_is_appended_at_the_end() {
    let check = |before: &str, after: &str| {
        assert_eq!(with(before), after);
        assert_eq!(without(after).as_deref(), Some(before));
    };
    check("", &format!("{TABLE}\n"));
    check("a = 1\n", &format!("a = 1\n\n{TABLE}\n"));
    check("a = 1 # c", &format!("a = 1 # c\n\n{TABLE}"));
    let windows = TABLE.replace('\n', "\r\n");
    check("\u{feff}a = 1\r\n", &format!("\u{feff}a = 1\r\n\r\n{windows}\r\n"));
}

#[test]
fn comments_and_what_follows_the_section_are_kept() {
    let check = |before: &str, after: Option<&str>| assert_eq!(without(before).as_deref(), after, "{before}");
    check(&format!("a = 1\n\n{TABLE}\n\n# of b\n[b]\nx = 1\n"), Some("a = 1\n\n# of b\n[b]\nx = 1\n"));
    check(&format!("{TABLE} # mine\n[mcp_servers.toolyard.env]\nA = \"1\"\n[b]\n"), Some("[b]\n"));
    check("[mcp_servers.toolyard]\n[b]\n", Some("[b]\n"));
    // Not as a section, or with others in between.
    check("[mcp_servers]\ntoolyard = { command = \"x\" }\n", None);
    check(&format!("{TABLE}\n[b]\n[mcp_servers.toolyard.env]\nA = \"1\"\n"), None);
}

#[test]
fn another_section_is_replaced_in_place() {
    let before = "[mcp_servers.toolyard]\nurl = \"x\"\n\n[b]\n";
    let after = with_replaced(before, "mcp_servers", "toolyard", &Entry::example());
    assert_eq!(after.unwrap(), format!("{TABLE}\n\n[b]\n"));
}

fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# [mcp_servers.toolyard]"),
        Just(""),
        Just("  "),
        Just("k0 = \"\"\"\n[mcp_servers.toolyard]\n\"\"\""),
        Just("l0 = [ # c\n 1,\n]"),
        Just("[mcp_servers.other0]"),
        Just("[t0.u]"),
        Just("[[many]]"),
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    (any::<bool>(), prop::collection::vec((line, end), 0..8), any::<bool>()).prop_map(
        |(mark, lines, is_ended)| {
            let lines = lines.into_iter().enumerate();
            let line = |(number, (line, end)): (usize, (&str, &str))| {
                format!("{}{end}", line.replace('0', &number.to_string()))
            };
            let text = lines.map(line).collect::<Vec<_>>().concat();
            let text = if is_ended { &text } else { text.trim_end_matches(['\r', '\n']) };
            format!("{}{text}", if mark { "\u{feff}" } else { "" })
        },
    )
}

proptest! {
    #[test]
    fn uninstall_restores_any_toml_file(text in file()) {
        let mut expected: ::toml::Table = ::toml::from_str(&text).unwrap();
        let after = with(&text);
        let servers = expected.entry("mcp_servers").or_insert(::toml::Value::Table(::toml::Table::new()));
        let entry: ::toml::Table = ::toml::from_str(TABLE).unwrap();
        servers.as_table_mut().unwrap().insert("toolyard".into(), entry["mcp_servers"]["toolyard"].clone());
        prop_assert_eq!(::toml::from_str::<::toml::Table>(&after).unwrap(), expected, "{}", after);
        prop_assert_eq!(without(&after), Some(text));
    }
}
