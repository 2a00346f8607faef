//! The endpoint as its clients meet it: raw HTTP and lines on one side, a small handler on the other.

#[cfg(test)]
mod legacy;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod control;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod modern;
#[cfg(test)]
mod park;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod silence;
#[cfg(test)]
mod sse;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod support;
#[cfg(test)]
mod wakes;
#[cfg(test)]
mod fast_path;
