//! That every URI, template and piece of garbage comes back as the upstream wrote it.

use proptest::prelude::*;

use super::*;

#[test]
fn a_uri_is_shown_under_its_upstream_and_found_again() {
    fn check(uri: &str, shown: &str) {
        assert_eq!(to_shown(&id(), uri), shown);
        assert_eq!(from_shown(shown), Some(("App", uri.to_owned())), "{shown}");
    }
    for (uri, shown) in [
        ("ui://weather/view.html", "ui://App/weather/view.html"),
        ("ui://", "ui://App/"),
        ("ui:rest", "yard+ui:App/rest"),
        ("skill://pdf/SKILL.md", "skill://App/pdf/SKILL.md"),
        ("skill:rest", "yard+skill:App/rest"),
        ("skills://rest", "yard+skills://App/rest"),
        ("UI://rest", "yard+UI://App/rest"),
        ("uix://rest", "yard+uix://App/rest"),
        ("file:///etc/hosts", "yard+file://App//etc/hosts"),
        ("https://user@host:80/a?b#c", "yard+https://App/user@host:80/a?b#c"),
        ("a+b-1.c://x", "yard+a+b-1.c://App/x"),
        ("urn:isbn:1", "yard+urn:App/isbn:1"),
        ("file:/etc", "yard+file:App//etc"),
        ("x:", "yard+x:App/"),
        (r"C:\temp", r"yard+C:App/\temp"),
        // Another Toolyard behind this one.
        ("yard+file://Inner/a", "yard+yard+file://App/Inner/a"),
        ("yard:Inner/a", "yard+yard:App/Inner/a"),
        // Without a scheme.
        ("", "yard:App/"),
        ("readme.md", "yard:App/readme.md"),
        ("//host/a", "yard:App///host/a"),
        (":a", "yard:App/:a"),
        ("1a:b", "yard:App/1a:b"),
        ("été:b", "yard:App/été:b"),
        // Templates.
        ("file:///{+path}", "yard+file://App//{+path}"),
        ("ui://{view}", "ui://App/{view}"),
        ("{scheme}://a", "yard:App/{scheme}://a"),
    ] {
        check(uri, shown);
    }
}

#[test]
fn a_uri_made_from_a_shown_template_maps_back() {
    fn check(template: &str, variable: &str, value: &str) {
        let shown = to_shown(&id(), template).replace(variable, value);
        assert_eq!(from_shown(&shown), Some(("App", template.replace(variable, value))));
    }
    for (template, variable, value) in [
        ("file://{+path}", "{+path}", "/etc/hosts"),
        ("{+uri}", "{+uri}", "file:///etc/hosts"),
        ("{scheme}://a", "{scheme}", "ui"),
        ("x:{+rest}", "{+rest}", "//host/a"),
    ] {
        check(template, variable, value);
    }
}

#[test]
fn a_uri_that_was_never_shown_belongs_to_no_upstream() {
    for uri in [
        "",
        "file:///etc/hosts",
        "ui://App",
        "ui:///rest",
        "ui://a b/rest",
        "yard",
        "yard:App",
        "yard:/rest",
        "yard://App/rest",
        "yard+App/rest",
        "yard+:App/rest",
        "yard+x:App",
        "yard+x:///rest",
        "yard+x://9/rest",
        "yard+ui://App/rest",
        "YARD+x://App/rest",
    ] {
        assert_eq!(from_shown(uri), None, "{uri}");
    }
}

proptest! {
    #[test]
    fn every_text_comes_back(uri in prop_oneof![any::<String>(), "(ui|yard|x|yard\\+x)?:?/{0,3}[a:/{}é]{0,5}"]) {
        let shown = to_shown(&id(), &uri);
        prop_assert_eq!(from_shown(&shown), Some(("App", uri)));
    }

    #[test]
    fn two_uris_are_never_shown_alike(
        one in "(ui|x|yard\\+)?:?/{0,3}[aA:/]{0,3}",
        other in "(ui|x|yard\\+)?:?/{0,3}[aA:/]{0,3}",
    ) {
        prop_assert_eq!(to_shown(&id(), &one) == to_shown(&id(), &other), one == other);
    }

    #[test]
    fn no_text_from_a_client_is_too_strange_to_be_looked_at(shown in "(yard[+:]|ui://)?\\PC{0,12}") {
        if let Some((upstream, _)) = from_shown(&shown) {
            prop_assert!(shown.contains(upstream));
        }
    }
}

fn id() -> UpstreamId {
    UpstreamId::parse("App").unwrap()
}
