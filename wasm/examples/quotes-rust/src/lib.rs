//! Quotes answers with what a mortgage costs a month, in the name of the agent whose
//! key asks: GET /api/v2/public/quotes?price=500000&down=100000&rate=6.25&years=30

#[path = "../../../guest/rust/edge.rs"]
mod edge;

use edge::{Refused, Request, Response};

edge::serve!(handle);

fn handle(req: &Request, resp: &mut Response) {
    let quote = match Quote::parse(req) {
        Ok(quote) => quote,
        Err(reason) => return resp.error(400, "invalid_parameter", reason),
    };
    match edge::profile() {
        Ok(profile) => quote.write(&profile.full_name, resp),
        Err(refused) => {
            edge::log(8, &format!("reading the profile: {:?}", refused));
            resp.error(500, "internal_error", "");
            if refused == Refused::Unavailable {
                resp.headers.push(("retry-after".into(), "1".into()));
            }
        }
    }
}

/// A mortgage. Amounts are whole units of the currency, the rate is a year's, in percent.
struct Quote {
    price: u64,
    down: u64,
    rate: f64,
    years: u64,
}

impl Quote {
    fn parse(req: &Request) -> Result<Quote, &'static str> {
        let text = |name| req.query_value(name).ok().flatten().unwrap_or_default();
        let whole = |name, most| text(name).parse().ok().filter(|n| *n <= most);
        let quote = Quote {
            price: whole("price", 1_000_000_000).filter(|n| *n > 0).ok_or("price_not_1_to_1000000000")?,
            down: whole("down", 1_000_000_000).ok_or("down_not_0_to_1000000000")?,
            rate: text("rate").parse().ok().filter(|r| (0.0..=50.0).contains(r)).ok_or("rate_not_0_to_50")?,
            years: whole("years", 50).filter(|n| *n > 0).ok_or("years_not_1_to_50")?,
        };
        if quote.down >= quote.price {
            return Err("down_not_below_price");
        }
        Ok(quote)
    }

    /// Returns the payment a month, in hundredths, rounded.
    fn monthly(&self) -> u64 {
        let loan = (self.price - self.down) as f64 * 100.0;
        let months = (self.years * 12) as f64;
        let rate = self.rate / 1200.0;
        // 1 - (1 + rate)^-months, which would be 0 for a rate that is lost beside 1.
        let repaid = -(-months * rate.ln_1p()).exp_m1();
        let payment = if rate == 0.0 { loan / months } else { loan * rate / repaid };
        payment.round() as u64
    }

    fn write(&self, agent: &str, resp: &mut Response) {
        let monthly = self.monthly();
        let total = monthly * self.years * 12;
        resp.text("{\"quote\":{\"agent\":");
        resp.string(agent);
        resp.text(&format!(
            ",\"loan\":{},\"rate_percent\":{},\"years\":{},\"monthly_payment\":{}.{:02},\"total_paid\":{}.{:02}}},\"api_version\":\"v2\"}}",
            self.price - self.down, self.rate, self.years, monthly / 100, monthly % 100, total / 100, total % 100,
        ));
    }
}
