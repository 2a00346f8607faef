//! `glob_files`: files by name, as fd finds them.

use globset::GlobBuilder;
use toolyard_tool::ToolError;

use crate::project::Place;
use crate::walk::Walk;

/// Files whose name matches a glob, or whose path below the place does if the glob has a `/`. A glob without capitals
/// ignores case.
pub(crate) fn glob(place: &Place, pattern: &str) -> Result<Vec<String>, ToolError> {
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .case_insensitive(!pattern.chars().any(char::is_uppercase))
        .build()
        .map_err(|error| ToolError::new(format!("`{pattern}` is not a valid glob: {error}")))?
        .compile_matcher();
    let by_path = pattern.contains('/');
    let files = Walk::default().files(place);
    let matching = files.into_iter().filter(|file| {
        let below = file.strip_prefix(&place.below).unwrap_or(file);
        if by_path {
            matcher.is_match(below)
        } else {
            file.file_name().is_some_and(|name| matcher.is_match(name))
        }
    });
    Ok(matching.map(|file| file.display().to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Projects;

    #[test]
    fn names_match_by_glob_and_paths_where_the_glob_has_a_slash() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for path in ["src/a.rs", "src/deep/b.rs", "README.md", ".hidden.rs"] {
            std::fs::write(folder.path().join(path), "").unwrap();
        }
        let projects = Projects::new(vec![folder.path().to_owned()], false);
        let check = |directory: &str, pattern: &str, expected: &[&str]| {
            let place = projects.locate(directory, None).unwrap();
            assert_eq!(glob(&place, pattern).unwrap(), expected, "{pattern}");
        };
        check(".", "*.rs", &["src/a.rs", "src/deep/b.rs"]);
        check(".", "src/*.rs", &["src/a.rs"]);
        check(".", "src/**/*.rs", &["src/a.rs", "src/deep/b.rs"]);
        check("src", "deep/*.rs", &["src/deep/b.rs"]);
        check(".", "readme*", &["README.md"]);
        check(".", "Readme*", &[]);
    }
}
