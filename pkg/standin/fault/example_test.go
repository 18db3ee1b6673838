package fault_test

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A test plans what goes wrong; a stand-in asks the plan at each of its points.
func ExamplePlan() {
	plan := &fault.Plan{}
	if err := plan.Add(fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.After, Nth: 2}); err != nil {
		fmt.Println(err)
	}
	for call := 1; call <= 3; call++ {
		if strike := plan.At("ec2.CreateSnapshots"); strike != nil {
			fmt.Printf("call %d: done, but the answer is lost (%s)\n", call, strike.Position)
			continue
		}
		fmt.Printf("call %d: as usual\n", call)
	}
	fmt.Println("never reached:", plan.Unreached())
	// Output:
	// call 1: as usual
	// call 2: done, but the answer is lost (after)
	// call 3: as usual
	// never reached: []
}

// The testbed's command line takes the same rules as text.
func ExampleParse() {
	rule, err := fault.Parse("before:ec2.CreateSnapshots:RequestLimitExceeded@3x2")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(rule.Position, rule.Point, rule.Code, "from call", rule.Nth, "on,", rule.Times, "times")
	// Output:
	// before ec2.CreateSnapshots RequestLimitExceeded from call 3 on, 2 times
}
