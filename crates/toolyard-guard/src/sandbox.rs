//! The sandbox of a child, and its form on the command line of a guard.

use std::ffi::OsString;
use std::path::PathBuf;

/// Precedes the items of a sandbox in the arguments of a guard.
pub(crate) const FLAG: &str = "--sandbox";

/// The only files that a child may use, and whether it may use the network. The system's own programs and libraries
/// can be read in any case; [`SYSTEM`] lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders, with everything below, that it may read and run.
    pub read: Vec<PathBuf>,
    /// The same that it may change as well.
    pub write: Vec<PathBuf>,
    /// Whether it may open sockets.
    pub net: bool,
}

/// The folders that every child may read and run.
pub const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix/store", "/proc"];

/// The devices that every child may also write to. The terminal is not one of them: a child could type commands into
/// it.
pub const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

impl Sandbox {
    /// The sandbox as arguments: whether there is a network, the number of paths, and each path after its purpose.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let net = if self.net { "net" } else { "no-net" };
        let count = (self.read.len() + self.write.len()).to_string();
        let read = self.read.iter().flat_map(|path| ["read".into(), path.into()]);
        let write = self.write.iter().flat_map(|path| ["write".into(), path.into()]);
        let head: [OsString; 3] = [FLAG.into(), net.into(), count.into()];
        head.into_iter().chain(read).chain(write).collect()
    }

    /// Reads what [`Self::to_args`] wrote, after the flag. `None` where it is something else: the child is then not
    /// started at all.
    #[cfg_attr(windows, expect(dead_code, reason = "there are no guards on Windows"))]
    pub(crate) fn from_args(arguments: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let net = match arguments.next()?.to_str()? {
            "net" => true,
            "no-net" => false,
            _ => return None,
        };
        let mut sandbox = Self { net, ..Self::default() };
        let count: usize = arguments.next()?.to_str()?.parse().ok()?;
        for _ in 0..count {
            let paths = match arguments.next()?.to_str()? {
                "read" => &mut sandbox.read,
                "write" => &mut sandbox.write,
                _ => return None,
            };
            paths.push(arguments.next()?.into());
        }
        Some(sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_read_as_it_was_written() {
        let sandbox =
            Sandbox { read: vec!["/a b".into(), "net".into()], write: vec!["/w".into()], net: true };
        let mut words = sandbox.to_args().into_iter().skip(1).chain(["program".into()]);
        assert_eq!(Sandbox::from_args(&mut words), Some(sandbox));
        assert_eq!(words.next(), Some("program".into()));
    }

    #[test]
    fn a_sandbox_that_cannot_be_read_is_refused() {
        for words in [&["x", "0"][..], &["net", "2", "read", "/a"], &["net", "1", "/a", "b"], &[]] {
            let mut words = words.iter().map(OsString::from);
            assert_eq!(Sandbox::from_args(&mut words), None);
        }
    }
}
