//! What does not compile, and what is said about it: each case is a file with the message beside it.
//! `TRYBUILD=overwrite` writes the messages anew.

#[test]
fn mistakes_are_explained_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
