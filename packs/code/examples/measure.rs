//! Prints the figures of sets of questions: `cargo xtask search` makes the sets and runs this.

#![expect(clippy::print_stdout, reason = "the output of a measurement")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for set in std::env::args_os().skip(1).map(std::path::PathBuf::from) {
        println!("## {}\n", set.file_stem().unwrap_or_default().display());
        println!("{}", toolyard_pack_code::measure::measure(&set)?);
    }
    Ok(())
}
