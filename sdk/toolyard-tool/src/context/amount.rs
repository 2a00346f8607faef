//! The numbers that progress is given in.

/// A number of finished or expected steps: any integer or floating-point type.
///
/// ```
/// use toolyard_tool::Context;
///
/// let (context, files) = (Context::detached(), vec!["a", "b"]);
/// for (done, _) in files.iter().enumerate() {
///     context.progress(done, files.len());
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that progress can be reported in",
    label = "expected an integer or a floating-point number"
)]
pub trait Amount {
    /// The number. Beyond 2^53 it is rounded.
    fn amount(self) -> f64;
}

/// The expected number of steps: a number, or `None` if it is not known.
///
/// ```
/// use toolyard_tool::Context;
///
/// let context = Context::detached();
/// context.progress(1, 10_u64);
/// context.progress(2, None);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a total that progress can be reported with",
    label = "expected a number, or `None` if the total is not known"
)]
pub trait Total {
    /// The number, if it is known.
    fn total(self) -> Option<f64>;
}

/// The only `Option`, so that a bare `None` needs no type annotation.
impl Total for Option<f64> {
    fn total(self) -> Option<f64> {
        self
    }
}

macro_rules! amounts {
    ($($number:ty),*) => {$(
        impl Amount for $number {
            #[expect(
                clippy::allow_attributes,
                reason = "which of the lints applies depends on the type"
            )]
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_lossless,
                clippy::unnecessary_cast,
                trivial_numeric_casts,
                reason = "progress is a ratio for people"
            )]
            fn amount(self) -> f64 {
                self as f64
            }
        }

        impl Total for $number {
            fn total(self) -> Option<f64> {
                Some(self.amount())
            }
        }
    )*};
}

amounts!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
