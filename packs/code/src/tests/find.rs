//! `find_code` by text: what its parts mean, and where it looks.

use super::*;

/// The files and lines of the matches by text or syntax.
fn places(result: &Value) -> Vec<(&str, u64)> {
    let matches = result["structuredContent"]["matches"]["matches"].as_array();
    let matches = matches.unwrap_or_else(|| panic!("{result}")).iter();
    matches.map(|found| (found["file"].as_str().unwrap(), found["line"].as_u64().unwrap())).collect()
}

#[tokio::test]
async fn text_in_quotes_is_found_with_every_character_that_an_expression_gives_a_meaning() {
    let scene = Scene::new();
    let line = "fn all<'a>(x: &[Vec<String>]) -> Result<(), Box<dyn Fn(&'a str) -> bool>> { a => \\<b\\> ^.*+?|$~# }\n";
    scene.write("project/types.rs", &format!("{line}fn other() -> bool {{}}\n"));
    for query in
        ["Vec<String>", "-> Result", "=>", "\\<b\\>", "^.*+?|$~# }", "{ a =>", "&'a str) -> bool>>", "<'a>("]
    {
        let result = scene.call(false, "find_code", json!({ "query": format!("\"{query}\"") })).await;
        assert_eq!(result["structuredContent"]["search_type"], "exact", "{query}");
        assert_eq!(places(&result), [("types.rs", 1)], "{query}: {}", text(&result));
    }
    // It is not an expression, so it is looked for as it is.
    let result = scene.call(false, "find_code", json!({ "query": "Box<dyn Fn(&'a" })).await;
    assert_eq!(places(&result), [("types.rs", 1)], "{}", text(&result));
    let query = json!({ "query": "Vec<String> AND result", "search_type": "hybrid" });
    let result = scene.call(false, "find_code", query).await;
    assert!(places(&result).contains(&("types.rs", 1)), "{}", text(&result));
}

#[tokio::test]
async fn the_language_limits_results_by_text_as_those_by_syntax() {
    let scene = Scene::new();
    scene.write("project/a.py", "retries = 1\nlimit = 2\n");
    scene.write("project/a.rs", "const retries: u8 = 1;\nconst limit: u8 = 2;\n");
    for (query, search_type) in
        [("retries", "grep"), ("retries(", "grep"), ("\"retries\"", "exact"), ("retries AND limit", "hybrid")]
    {
        for (language, file) in [("python", "a.py"), ("rs", "a.rs")] {
            let query = json!({ "query": query, "search_type": search_type, "language": language });
            let result = scene.call(false, "find_code", query.clone()).await;
            let others = places(&result).iter().filter(|(found, _)| *found != file).count();
            assert_eq!(others, 0, "{query}: {}", text(&result));
        }
    }
    let query = json!({ "query": "retries", "language": "python" });
    assert_eq!(places(&scene.call(false, "find_code", query).await), [("a.py", 1)]);
}
