//! Decides who may call which tool with which arguments, and whether a tool is still defined as before. Pure: no IO, no
//! clock and no runtime; time and files are the caller's.

pub mod canonical;
pub mod pin;
pub mod rules;
pub mod unique;
