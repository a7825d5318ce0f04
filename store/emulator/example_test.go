package emulator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/emulator"
)

// The client sends its requests to the engine in the same process: no server, no port.
func ExampleOpen() {
	engine, err := emulator.Open("", emulator.Options{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	cred, _ := azcosmos.NewKeyCredential(emulator.WellKnownKey)
	client, _ := azcosmos.NewClientWithKey(engine.Endpoint(), cred, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: engine},
	})
	defer client.Close()

	created, err := client.CreateDatabase(context.Background(), azcosmos.DatabaseProperties{ID: "blog"}, nil)
	fmt.Println(created.RawResponse.StatusCode, err)
	// Output: 201 <nil>
}
