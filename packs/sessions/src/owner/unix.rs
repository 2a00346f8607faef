//! Whether a file belongs to this user: by its user id.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

pub(crate) fn is_own(file: &Metadata) -> bool {
    file.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_user_is_not_our_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_own_file = |path: &std::path::Path| is_own(&std::fs::metadata(path).unwrap());
        assert!(is_own_file(file.path()));
        // Only root can give a file away; for other users the files of root are those of another user.
        let is_given = std::os::unix::fs::chown(file.path(), Some(65_534), None).is_ok();
        assert!(!is_own_file(if is_given { file.path() } else { "/etc/passwd".as_ref() }));
    }
}
