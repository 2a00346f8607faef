//! Templates in both directions.

use proptest::prelude::*;

use super::*;

fn values(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_become_paths() {
    let check = |template: &str, pairs: &[(&str, &str)], expected: Result<&str, &str>| {
        let found = Template::parse(template).and_then(|template| template.render(&values(pairs), true));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{template}: {found:?}, expected {expected:?}"),
        }
    };
    check("{artist}/{title}", &[("artist", "AC/DC"), ("title", "T.N.T.")], Ok("AC-DC/T.N.T"));
    check("{track:02d} {title}", &[("track", "3"), ("title", "So?")], Ok("03 So-"));
    check("{track:02d} x", &[("track", "3/12")], Ok("03 x"));
    check("{album} ({year|0000})", &[("album", "A")], Ok("A (0000)"));
    check("{track:02d|00} {title}", &[("title", "A")], Ok("00 A"));
    check("{title}", &[("title", "\u{1}a\tb ")], Ok("-a-b"));
    check("{title}", &[("title", "...")], Err("no value for `title`"));
    check("{title}", &[], Err("no value for `title`"));
    check("{track:02d}", &[("track", "-3")], Err("must be a number"));
    check("/a/{title}", &[], Err("must not begin with a slash"));
    check("../{title}", &[], Err("`.` and `..` are not names"));
    check("{title", &[], Err("not closed"));
    check("{ti tle}", &[], Err("names no field"));
    check("{track:2d}", &[], Err("is not a form"));
    check("a//b", &[], Err("is empty"));
    let long = "x".repeat(300);
    check("{title}", &[("title", long.as_str())], Err("longer than 255 bytes"));
}

#[test]
fn unsanitised_values_cannot_lead_out() {
    let template = Template::parse("{a}/{b}").unwrap();
    let check = |a: &str, b: &str| template.render(&values(&[("a", a), ("b", b)]), false);
    assert_eq!(check("x/y", "z").unwrap(), "x/y/z");
    for (a, b) in [("..", "b"), ("a", "../b"), ("/etc", "b"), ("a/", "b"), ("a", ".")] {
        assert!(check(a, b).is_err(), "{a} {b}");
    }
}

#[test]
fn paths_become_values() {
    let check = |template: &str, path: &str, expected: Option<&[(&str, &str)]>| {
        let names: Vec<&str> = path.split('/').collect();
        let found = Template::parse(template).unwrap().fit(&names);
        assert_eq!(found, expected.map(values), "{template} {path}");
    };
    check(
        "{artist}/{track:02d} {title}",
        "Abba/01 Tiger",
        Some(&[("artist", "Abba"), ("track", "01"), ("title", "Tiger")]),
    );
    check("{artist} - {title}", "A - B - C", Some(&[("artist", "A - B"), ("title", "C")]));
    check("{track:02d} {title}", "Tiger 01", None);
    check("{track:02d}. {title}", "1. Tiger", None);
    check("{album} ({year})", "Best (of) (1999)", Some(&[("album", "Best (of)"), ("year", "1999")]));
    check("{artist}/{artist} - {title}", "A/A - T", Some(&[("artist", "A"), ("title", "T")]));
    check("{artist}/{artist} - {title}", "A/B - T", None);
    check("{artist}/{title}", "A", None);
    assert!(Template::parse("{a}{b}").unwrap().check_reversible().is_err());
}

/// Values that hold none of the literals between them.
fn word() -> impl Strategy<Value = String> {
    "[A-Za-z0-9äöü&'!,]{1,12}( [A-Za-z0-9äöü&'!,]{1,8})?"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rendered_path_matches_its_template(artist in word(), album in word(), year in 1_u32..9999, track in 0_u32..1000, title in word()) {
        let template = Template::parse("{artist}/{album} ({year})/{track:02d} - {title}").unwrap();
        let given = values(&[
            ("artist", &artist), ("album", &album), ("year", &year.to_string()),
            ("track", &format!("{track:02}")), ("title", &title),
        ]);
        let path = template.render(&given, true).unwrap();
        let names: Vec<&str> = path.split('/').collect();
        prop_assert_eq!(template.fit(&names), Some(given));
    }

    #[test]
    fn a_path_that_matches_renders_to_itself(artist in "\\PC{1,30}", title in "\\PC{1,30}") {
        let template = Template::parse("{artist} - {title}").unwrap();
        if let Ok(path) = template.render(&values(&[("artist", &artist), ("title", &title)]), true) {
            let again = template.fit(&[&path]).map(|values| template.render(&values, true).unwrap());
            prop_assert_eq!(again, Some(path));
        }
    }

    #[test]
    fn no_value_leads_out(a in "\\PC{0,40}", b in ".{0,40}", sanitise: bool) {
        let template = Template::parse("{a}/x {b}").unwrap();
        if let Ok(path) = template.render(&values(&[("a", &a), ("b", &b)]), sanitise) {
            let is_plain = std::path::Path::new(&path)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)));
            prop_assert!(is_plain && !path.is_empty(), "{}", path);
        }
    }
}
