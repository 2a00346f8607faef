//! Code that does not compile, and the compiler's message: each case is a file with the message beside it.
//! `TRYBUILD=overwrite` writes the messages again.

#[test]
fn mistakes_are_explained_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
