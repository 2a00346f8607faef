//! What a name may look like, and that two different tools are never shown under one name.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn an_invalid_upstream_id_is_explained() {
    fn check(id: &str, expected: Result<(), &str>) {
        let parsed = UpstreamId::parse(id);
        let outcome =
            parsed.as_ref().map(UpstreamId::as_str).map_err(|error| format!("{error}; {}", error.hint()));
        assert_eq!(outcome, expected.map(|()| id).map_err(str::to_owned));
    }
    let longest = "a".repeat(64);
    let too_long = "a".repeat(65);
    let reserved_hub = "upstream id `hub` is reserved by Toolyard; choose another, e.g. `hub-2`";
    let reserved_yard = "upstream id `YARD` is reserved by Toolyard; choose another, e.g. `YARD-2`";
    let reserved_p = "upstream id `p` is reserved by Toolyard; choose another, e.g. `p-2`";
    for (id, expected) in [
        ("WatchTower", Ok(())),
        ("a", Ok(())),
        ("a__b-9_", Ok(())),
        ("hub-2", Ok(())),
        (&longest, Ok(())),
        (&too_long, Err("upstream id of 65 characters is too long; use at most 64")),
        ("", Err("an upstream id cannot be empty; choose a short word such as `files`")),
        ("9a", Err("upstream id `9a` starts with `9`; start it with a letter, e.g. `s-9a`")),
        ("-a", Err("upstream id `-a` starts with `-`; start it with a letter, e.g. `s--a`")),
        ("a b", Err("upstream id `a b` contains ' '; use only letters, digits, `_` and `-`")),
        ("a:b", Err("upstream id `a:b` contains ':'; use only letters, digits, `_` and `-`")),
        ("été", Err("upstream id `été` contains 'é'; use only letters, digits, `_` and `-`")),
        ("hub", Err(reserved_hub)),
        ("YARD", Err(reserved_yard)),
        ("p", Err(reserved_p)),
    ] {
        check(id, expected);
    }
}

#[test]
fn ids_that_differ_in_case_share_a_key() {
    let id = |text| UpstreamId::parse(text).unwrap();
    assert_eq!(id("WatchTower").fold(), id("watchTOWER").fold());
    assert_ne!(id("WatchTower"), id("watchtower"));
    assert_eq!(UpstreamId::yard().as_str(), "yard");
}

#[test]
fn an_imported_name_becomes_a_free_id() {
    fn check(name: &str, taken: &[&str], expected: &str) {
        assert_eq!(sanitize_upstream_id(name, |id| taken.contains(&id)).as_str(), expected);
    }
    for (name, taken, expected) in [
        ("files", &[][..], "files"),
        ("files", &["files"], "files-2"),
        ("Files", &["files", "files-2"], "Files-3"),
        ("my server!", &[], "my-server-"),
        ("@scope/pkg", &[], "s--scope-pkg"),
        ("7zip", &[], "s-7zip"),
        ("_x", &[], "s-_x"),
        ("", &[], "s-"),
        ("日本", &[], "s---"),
        ("hub", &[], "hub-2"),
        ("lean", &[], "lean-2"),
        ("Yard", &["yard-2"], "Yard-3"),
    ] {
        check(name, taken, expected);
    }
    let long = "a".repeat(80);
    check(&long, &[], &"a".repeat(64));
    check(&long, &[&"a".repeat(64)], &format!("{}-2", "a".repeat(62)));
}

/// Shown names stand in users' permission lists, so these must never change. The hashes come from another program.
#[test]
fn a_tool_is_shown_under_a_name_that_models_accept() {
    fn check(upstream: &str, tool: &str, budget: usize, expected: &str) {
        let upstream = id(upstream);
        assert_eq!(shown(&upstream, tool, budget), expected);
        assert_eq!(NameStyle::Shown { budget }.name(&upstream, tool), expected);
        assert_eq!(NameStyle::Colon.name(&upstream, tool), format!("{upstream}:{tool}"));
    }
    let long_id = "a".repeat(64);
    let reply = "create_pull_request_review_comment_reply";
    for (upstream, tool, budget, expected) in [
        ("WatchTower", "ClickElement", 48, "WatchTower__ClickElement"),
        ("yard", "tools_search", 48, "yard__tools_search"),
        ("a", "", 48, "a__"),
        ("a", "b__c", 48, "a__b__c"),
        ("a__b", "c", 48, "a_b_c_zydlqszf"),
        ("a__b", "", 48, "a_b_yoqw3k7q"),
        ("a", "_b", 48, "a_b_sfbxgldn"),
        ("a_", "b", 48, "a_b_f7nfwvoc"),
        ("a", "___", 48, "a_sxjes4fb"),
        ("files", "read.file", 48, "files_read_file_cm3xytqf"),
        ("files", "read/файл", 48, "files_read_o6xg5c3b"),
        ("github", reply, 48, "github__create_pull_request_review_comment_reply"),
        ("github", reply, 47, "github_create_pull_request_review_comm_svxrmdnt"),
        (&long_id, "tool", 48, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_zba6axyq"),
        ("files", "read", 16, "files__read"),
        ("files", "read_file_", 16, "files_r_cuxqxdbz"),
        ("files", "read file", 1, "files_r_rda3q3fn"),
    ] {
        check(upstream, tool, budget, expected);
    }
    assert_eq!(NameStyle::default(), NameStyle::Shown { budget: 48 });
}

/// Ids and tools from few letters and many separators, so that they come close to each other.
fn hostile_pair() -> impl Strategy<Value = (UpstreamId, String)> {
    let tool = prop_oneof!["[ab_:-]{0,6}", "[ab_.é]{30,60}", any::<String>()];
    ("[ab][ab_-]{0,5}", tool).prop_map(|(upstream, tool)| (id(&upstream), tool))
}

proptest! {
    #[test]
    fn different_tools_are_shown_under_different_names(
        (one, one_tool) in hostile_pair(),
        (other, other_tool) in hostile_pair(),
        budget in MIN_BUDGET..=64,
    ) {
        let same = one == other && one_tool == other_tool;
        prop_assert_eq!(shown(&one, &one_tool, budget) == shown(&other, &other_tool, budget), same);
    }

    /// `a` + `b__c` and `a__b` + `c` join to one text; they must not be shown alike.
    #[test]
    fn every_place_to_cut_a_name_gives_another_name(text in "[ab][ab_]{2,12}") {
        let cuts: Vec<_> = (1..text.len() - 1).filter(|at| text[*at..].starts_with("__")).collect();
        let names: HashSet<_> = cuts.iter().map(|at| shown(&id(&text[..*at]), &text[at + 2..], 48)).collect();
        prop_assert_eq!(names.len(), cuts.len());
    }

    #[test]
    fn a_shown_name_is_legal_and_reveals_its_form((upstream, tool) in hostile_pair(), budget in 0_usize..80) {
        let name = shown(&upstream, &tool, budget);
        prop_assert!(!name.is_empty() && name.len() <= budget.max(MIN_BUDGET), "{}", name);
        prop_assert!(name.chars().all(is_legal), "{}", name);
        let plain = format!("{upstream}__{tool}");
        prop_assert!(name == plain || !name.contains("__"), "{}", name);
    }

    #[test]
    fn every_imported_name_gives_an_id(name in any::<String>(), taken in 0_usize..4) {
        let refused = std::cell::Cell::new(0);
        let id = sanitize_upstream_id(&name, |_| refused.replace(refused.get() + 1) < taken);
        prop_assert_eq!(UpstreamId::parse(id.as_str()), Ok(id));
    }
}

fn id(text: &str) -> UpstreamId {
    if text == YARD { UpstreamId::yard() } else { UpstreamId::parse(text).unwrap() }
}
