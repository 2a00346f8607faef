//! Whose a port of this machine is. Linux lists every socket with the user it belongs to; elsewhere nobody can
//! tell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of a socket that listens, as the tables have it.
const LISTENS: &str = "0A";
/// Whoever is that can do as he likes anyhow. What forwards ports into containers runs so.
const ROOT: u32 = 0;

/// Who listens at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Our own user, or the administrator.
    Ours,
    /// Somebody else, at one of its addresses at least.
    Other,
    Nobody,
    /// The system does not tell.
    Unknown,
}

/// Looks now. Reads files, so not for threads that carry calls.
pub(crate) fn holder(port: u16) -> Holder {
    let Some(own) = own_user() else { return Holder::Unknown };
    let tables: Vec<String> = TABLES.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    if tables.is_empty() {
        return Holder::Unknown;
    }
    judge(&tables, port, own)
}

#[cfg(unix)]
fn own_user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|own| own.uid())
}

#[cfg(not(unix))]
fn own_user() -> Option<u32> {
    None
}

fn judge(tables: &[String], port: u16, own: u32) -> Holder {
    let mut users =
        tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(|line| listener(line, port));
    match users.next() {
        None => Holder::Nobody,
        Some(first) if [first].into_iter().chain(users).all(|user| [own, ROOT].contains(&user)) => {
            Holder::Ours
        }
        Some(_) => Holder::Other,
    }
}

/// The user of a socket that can be reached at this port by a name of this machine.
fn listener(line: &str, port: u16) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, at) = fields.get(1)?.split_once(':')?;
    let is_listening = fields.get(3) == Some(&LISTENS) && u16::from_str_radix(at, 16) == Ok(port);
    let is_reached = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    (is_listening && is_reached(parse_address(address)?)).then(|| fields.get(7)?.parse().ok())?
}

/// Words of four bytes, each as a number of this machine.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    if hex.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?];
    let bytes: [u8; 16] = words.concat().try_into().ok()?;
    Some(Ipv6Addr::from(bytes).to_canonical())
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn check(lines: &[(&str, &str, u32)], expected: Holder) {
        let row = |(address, state, uid): &(&str, &str, u32)| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 1 1\n"
            )
        };
        let table: String = [HEAD.to_owned()].into_iter().chain(lines.iter().map(row)).collect();
        assert_eq!(judge(&[table], 0x13EC, 1000), expected, "{lines:?}");
    }

    #[test]
    fn a_port_is_ours_where_nobody_else_listens_at_it() {
        let (any, local) = ("00000000:13EC", "0100007F:13EC");
        let (any6, local6) = ("0".repeat(32) + ":13EC", "0".repeat(24) + "01000000:13EC");
        let mapped = "0000000000000000FFFF00000100007F:13EC";
        for address in [any, local, any6.as_str(), local6.as_str(), mapped] {
            check(&[(address, "0A", 1000)], Holder::Ours);
            check(&[(address, "0A", 0)], Holder::Ours);
            check(&[(address, "0A", 1001)], Holder::Other);
            check(&[(address, "01", 1001)], Holder::Nobody);
        }
        check(&[(local, "0A", 1000), (&local6, "0A", 1001)], Holder::Other);
        check(&[("0100007F:13ED", "0A", 1001)], Holder::Nobody);
        // An address of the network is not where hints lead.
        check(&[("0100000A:13EC", "0A", 1001)], Holder::Nobody);
        check(&[("nonsense", "0A", 1001), ("", "", 0)], Holder::Nobody);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_listener_of_our_own_is_seen_and_gone_with_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(holder(port), Holder::Ours);
        drop(listener);
        assert_eq!(holder(port), Holder::Nobody);
    }
}
