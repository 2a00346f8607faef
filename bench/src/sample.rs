//! The text that the `blob` tool returns and that the load client expects.

/// 64 bytes, with quotes and a newline so that a gateway that re-encodes strings pays for it.
const LINE: &str = "0123456789 the \"quick\" brown fox jumps over the lazy dog, then.\n";

/// A text of `kib` KiB.
pub fn blob(kib: usize) -> String {
    LINE.repeat(kib * 1024 / LINE.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_blob_has_the_size_that_was_asked_for() {
        assert_eq!(super::blob(3).len(), 3 * 1024);
    }
}
