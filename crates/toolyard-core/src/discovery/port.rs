//! Which user listens at a port of this machine, at the addresses that are used: another address of the same port may
//! belong to another user. Linux lists every socket with its user; other systems do not provide
//! this.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of a socket that listens, as the tables have it.
const LISTENS: &str = "0A";
/// The administrator has all rights anyway. Programs that forward ports into containers run as this user.
const ROOT: u32 = 0;

/// Which user listens at a port, at one of some addresses or at all of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Our own user, or the administrator.
    Ours,
    /// Another user, at one of the addresses at least.
    Other,
    None,
    /// The system does not report it.
    Unknown,
}

/// Looks now. Reads files, so it must not run on threads that carry calls.
pub(crate) fn holder(addresses: &[IpAddr], port: u16) -> Holder {
    let Some(own) = own_user() else { return Holder::Unknown };
    let tables: Vec<String> = TABLES.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    if tables.is_empty() {
        return Holder::Unknown;
    }
    judge(&tables, addresses, port, own)
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

fn judge(tables: &[String], addresses: &[IpAddr], port: u16, own: u32) -> Holder {
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let mut users = lines.filter_map(|line| listener(line, addresses, port));
    match users.next() {
        None => Holder::None,
        Some(first) if [first].into_iter().chain(users).all(|user| [own, ROOT].contains(&user)) => {
            Holder::Ours
        }
        Some(_) => Holder::Other,
    }
}

/// The user of a socket that can be reached at this port by one of these addresses.
fn listener(line: &str, addresses: &[IpAddr], port: u16) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, at) = fields.get(1)?.split_once(':')?;
    let is_listening = fields.get(3) == Some(&LISTENS) && u16::from_str_radix(at, 16) == Ok(port);
    // One that listens at all addresses of one kind may do so at those of the other, too.
    let is_reached = |ip: IpAddr| ip.is_unspecified() || addresses.contains(&ip);
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

    fn check(dialled: &str, lines: &[(&str, &str, u32)], expected: Holder) {
        let row = |(address, state, uid): &(&str, &str, u32)| {
            format!(
                "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 1 1\n"
            )
        };
        let table: String = [HEAD.to_owned()].into_iter().chain(lines.iter().map(row)).collect();
        let dialled = crate::discovery::endpoint::addresses_of(dialled);
        assert_eq!(judge(&[table], &dialled, 0x13EC, 1000), expected, "{dialled:?} {lines:?}");
    }

    #[test]
    fn a_port_is_ours_where_no_other_user_listens_at_it() {
        let (any, local) = ("00000000:13EC", "0100007F:13EC");
        let (any6, local6) = ("0".repeat(32) + ":13EC", "0".repeat(24) + "01000000:13EC");
        let mapped = "0000000000000000FFFF00000100007F:13EC";
        for (dialled, address) in [
            ("localhost", any),
            ("localhost", local),
            ("localhost", any6.as_str()),
            ("localhost", local6.as_str()),
            ("127.0.0.1", any),
            ("127.0.0.1", local),
            ("127.0.0.1", any6.as_str()),
            ("127.0.0.1", mapped),
            ("127.9.9.9", any),
            ("[::1]", any6.as_str()),
            ("[::1]", local6.as_str()),
        ] {
            check(dialled, &[(address, "0A", 1000)], Holder::Ours);
            check(dialled, &[(address, "0A", 0)], Holder::Ours);
            check(dialled, &[(address, "0A", 1001)], Holder::Other);
            check(dialled, &[(address, "01", 1001)], Holder::None);
        }
        check("localhost", &[(local, "0A", 1000), (&local6, "0A", 1001)], Holder::Other);
        check("localhost", &[("0100007F:13ED", "0A", 1001)], Holder::None);
        // Hints never lead to addresses of the network.
        check("localhost", &[("0100000A:13EC", "0A", 1001)], Holder::None);
        check("localhost", &[("nonsense", "0A", 1001), ("", "", 0)], Holder::None);
    }

    #[test]
    fn a_listener_at_another_address_of_this_machine_does_not_count() {
        let first = "0100007F:13EC";
        let second = "0200007F:13EC";
        let local6 = "0".repeat(24) + "01000000:13EC";
        check("127.0.0.1", &[(first, "0A", 1000), (second, "0A", 1001)], Holder::Ours);
        check("127.0.0.1", &[(first, "0A", 1000), (&local6, "0A", 1001)], Holder::Ours);
        check("127.0.0.1", &[(second, "0A", 1001)], Holder::None);
        check("127.0.0.2", &[(first, "0A", 1000), (second, "0A", 1001)], Holder::Other);
        check("[::1]", &[(first, "0A", 1001), (&local6, "0A", 1000)], Holder::Ours);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_listener_of_our_own_is_seen_and_gone_with_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(holder(&[address.ip()], address.port()), Holder::Ours);
        drop(listener);
        assert_eq!(holder(&[address.ip()], address.port()), Holder::None);
    }
}
